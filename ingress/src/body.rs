//! Bodies of calls to the API. They are limited in length and time, never decompressed, and read
//! as JSON. An error names the place of the mistake, and never quotes the body.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::App;
use crate::error::Error;
use crate::openapi::operation::{Input, Operation};

const DEADLINE: Duration = Duration::from_secs(10);

/// The errors of a body that cannot be read.
pub const UNREADABLE: [Error; 4] = [
    Error::FormEncoding,
    Error::BodyTooLarge,
    Error::BodyTooSlow,
    Error::BodyIncomplete,
];

/// A JSON object of at most `MOST` bytes as the body of a request.
pub struct Given<T, const MOST: usize>(pub T);

impl<T: DeserializeOwned, const MOST: usize> FromRequest<Arc<App>> for Given<T, MOST> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        let body = read(&parts.headers, body, MOST).await?;
        parse(&body).map(Given)
    }
}

impl<T, const MOST: usize> Input for Given<T, MOST> {
    fn describe(operation: Operation) -> Operation {
        operation.errors(&UNREADABLE).errors(&[
            Error::NotJson,
            Error::NotAnObject,
            Error::Field { line: 1, column: 9 },
        ])
    }
}

/// Reads the whole body, which may have at most `limit` bytes.
pub async fn read(headers: &HeaderMap, body: Body, most: usize) -> Result<Bytes, Error> {
    let encoding = headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Error::FormEncoding);
    }
    let body = Limited::new(body, most).collect();
    let body = tokio::time::timeout(DEADLINE, body)
        .await
        .map_err(|_| Error::BodyTooSlow)?
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                Error::BodyTooLarge
            } else {
                Error::BodyIncomplete
            }
        })?;
    Ok(body.to_bytes())
}

/// Reads a JSON object.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Error> {
    let is_object = body.trim_ascii_start().first() == Some(&b'{');
    match serde_json::from_slice(body) {
        // serde would also accept an array with the fields of the struct, so this checks for an
        // object.
        Ok(_) if !is_object => Err(Error::NotAnObject),
        Ok(read) => Ok(read),
        Err(error) => Err(match error.classify() {
            Category::Data if is_object => Error::Field {
                line: short(error.line()),
                column: short(error.column()),
            },
            Category::Data => Error::NotAnObject,
            Category::Syntax | Category::Eof | Category::Io => Error::NotJson,
        }),
    }
}

fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
