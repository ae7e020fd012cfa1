//! A form that was sent.

use axum::body::{Body, to_bytes};

use crate::error::Error;
use crate::fields::Fields;

/// The most bytes of a form.
const MOST: usize = 16 * 1024;

/// Reads the fields of a form that was sent.
pub async fn read(body: Body) -> Result<Fields, Error> {
    let bytes = to_bytes(body, MOST).await.map_err(|_| Error::Fields)?;
    let text = str::from_utf8(&bytes).map_err(|_| Error::Fields)?;
    Ok(Fields::of_query(text)?)
}
