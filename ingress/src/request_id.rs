//! One id finds a request everywhere: in `X-Request-Id` of the answer, in the logs, in the
//! job's row and in the worker's logs. A client may choose it; otherwise it is the id that
//! a delivery's job will have.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use uuid::Uuid;

use crate::App;

const HEADER: &str = "x-request-id";
const LONGEST: usize = 128;

/// The id of a request, in its extensions.
#[derive(Clone, Debug)]
pub struct RequestId {
    /// What the client chose, when it chose something fit to be stored and logged.
    pub given: Option<String>,
    pub own: Uuid,
}

/// Takes or makes the id and gives it out with the answer.
pub async fn attach(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let given = request.headers().get(HEADER).and_then(accept);
    let own = app.clock.id();
    let header = match &given {
        Some(given) => HeaderValue::from_str(given).ok(),
        None => {
            HeaderValue::from_str(own.as_hyphenated().encode_lower(&mut Uuid::encode_buffer())).ok()
        }
    };
    request.extensions_mut().insert(RequestId { given, own });
    let mut response = next.run(request).await;
    if let Some(header) = header {
        response.headers_mut().insert(HEADER, header);
    }
    response
}

fn accept(header: &HeaderValue) -> Option<String> {
    let text = header.to_str().ok()?;
    let fits = (1..=LONGEST).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte));
    fits.then(|| text.to_owned())
}
