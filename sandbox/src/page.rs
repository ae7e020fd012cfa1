//! The common parts of the pages for people: their layout (`sandbox/templates/`) and their
//! protection. The pages are plain HTML forms without script, and askama escapes every value that
//! a template shows.

use askama::Template;
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

const STYLE: &str = concat!(
    include_str!("../../common/server/src/base.css"),
    include_str!("../templates/page.css"),
);

/// The content security policy. `form-action` allows every address of the web, because a form
/// leads on to the merchant's own pages, and browsers apply `form-action` to these redirects too.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action http: https:; \
                      base-uri 'none'; frame-ancestors 'none'";

pub fn routes() -> Router {
    Router::new().route("/page.css", get(style))
}

async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

/// Refuses a form that a page of another site has posted. Browsers send a header that says from
/// where a request comes.
pub async fn own_forms_only(request: Request, next: Next) -> Response {
    let site = request.headers().get("Sec-Fetch-Site");
    let foreign = site.is_some_and(|site| site != "same-origin" && site != "none");
    if request.method() == Method::POST && foreign {
        return problem(StatusCode::FORBIDDEN, "This form is not of this page");
    }
    next.run(request).await
}

/// Answers with a page. Its template extends the common layout.
pub fn page(status: StatusCode, template: &impl Template) -> Response {
    let headers: [(HeaderName, &str); 4] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, Html(template.to_string())).into_response()
}

#[derive(Template)]
#[template(path = "problem.html")]
struct Problem<'a> {
    what: &'a str,
}

pub fn problem(status: StatusCode, what: &str) -> Response {
    page(status, &Problem { what })
}

/// Redirects to an address that the browser asks for with GET, so that reloading posts nothing
/// twice.
pub fn see_other(url: &str) -> Response {
    let location =
        HeaderMap::from_iter(HeaderValue::from_str(url).map(|url| (header::LOCATION, url)));
    (StatusCode::SEE_OTHER, location).into_response()
}
