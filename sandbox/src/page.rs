//! What the pages for people share: their look, and what protects them. Plain HTML forms
//! without script. Text gets into a page through [`Text`] alone, which escapes it.

use std::fmt::{self, Write};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

const STYLE: &str = include_str!("page.css");

/// A form leads on to the merchant's own pages, wherever those lead: browsers hold all of that
/// to `form-action`.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action http: https:; \
                      base-uri 'none'; frame-ancestors 'none'";

pub fn routes() -> Router {
    Router::new().route("/page.css", get(style))
}

async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

/// A page of another site may not press the buttons. Browsers say who asks.
pub async fn own_forms_only(request: Request, next: Next) -> Response {
    let site = request.headers().get("Sec-Fetch-Site");
    let foreign = site.is_some_and(|site| site != "same-origin" && site != "none");
    if request.method() == Method::POST && foreign {
        return problem(StatusCode::FORBIDDEN, "This form is not of this page");
    }
    next.run(request).await
}

/// A page. `body` is HTML.
pub fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let title = Text(title);
    let page = format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title}</title>
<link rel="stylesheet" href="/page.css">
</head>
<body>
<main>
{body}
<footer>Waybill’s sandbox: nothing here is real.</footer>
</main>
</body>
</html>
"#
    );
    let headers: [(HeaderName, &str); 4] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, Html(page)).into_response()
}

pub fn problem(status: StatusCode, what: &str) -> Response {
    page(status, what, &format!("<h1>{}</h1>", Text(what)))
}

/// To be asked for with GET, so that nothing is posted twice.
pub fn see_other(url: &str) -> Response {
    let location =
        HeaderMap::from_iter(HeaderValue::from_str(url).map(|url| (header::LOCATION, url)));
    (StatusCode::SEE_OTHER, location).into_response()
}

/// Text as it may stand in an element or between double quotes.
pub struct Text<T>(pub T);

impl<T: fmt::Display> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.to_string().chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}
