//! The API over HTTP. It says whose a token is, and tells the app itself whether a token is good.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::json;

use super::caller::{Caller, well_formed};
use super::error::{ApiError, CHECK_TOKEN, USER};
use super::{Identity, Route, objects};
use crate::fault_injector;
use crate::lock;
use crate::{IDENTITY_CLIENT_ID, IDENTITY_CLIENT_SECRET};

const PER_PAGE: usize = 30;
const MOST_PER_PAGE: usize = 100;

pub fn routes(identity: Identity) -> Router {
    let fault_injector = |route| {
        middleware::from_fn_with_state(identity.fault_injector(route).clone(), fault_injector::pass)
    };
    let named = get(named).route_layer(fault_injector(Route::Named));
    let check = post(check_token).route_layer(fault_injector(Route::CheckToken));
    let revoke = delete(revoke_token).route_layer(fault_injector(Route::RevokeToken));
    Router::new()
        .route("/user", get(user).route_layer(fault_injector(Route::User)))
        .route(
            "/user/emails",
            get(emails).route_layer(fault_injector(Route::Emails)),
        )
        .route("/users/{login}", named)
        .route("/applications/{client_id}/token", check.merge(revoke))
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .with_state(identity)
}

async fn not_found() -> ApiError {
    ApiError::unknown_path()
}

async fn user(State(identity): State<Identity>, caller: Caller) -> Response {
    let user = objects::profile(&caller.user, &identity.api_url());
    caller.tagged(&identity, "", &json!(user))
}

/// The public profile of whoever has the login. Anybody may ask.
async fn named(
    State(identity): State<Identity>,
    Path(login): Path<String>,
) -> Result<Response, ApiError> {
    let books = lock(&identity.books);
    let user = books
        .user(&login)
        .ok_or_else(|| ApiError::not_found(USER))?;
    Ok(Json(objects::profile(user, &identity.api_url())).into_response())
}

async fn emails(
    State(identity): State<Identity>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Response {
    const ACCEPTED: &str = "user, user:email";
    if !caller.token.may(&["user", "user:email"]) {
        return caller.answer(ACCEPTED, ApiError::no_emails());
    }
    let page = Page::read(query.as_deref().unwrap_or_default());
    let all = &caller.user.emails;
    let shown: Vec<_> = all.iter().skip(page.start()).take(page.size()).collect();
    let mut answer = caller.tagged(&identity, ACCEPTED, &json!(shown));
    let link = page.links(&format!("{}/user/emails", identity.api_url()), all.len());
    if let Some(link) = link.and_then(|link| HeaderValue::from_str(&link).ok()) {
        answer.headers_mut().insert(header::LINK, link);
    }
    answer
}

#[derive(Deserialize)]
struct AboutToken {
    access_token: String,
}

async fn check_token(
    State(identity): State<Identity>,
    Path(client_id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let text = identity.about_token(&client_id, &headers, &body)?;
    let books = lock(&identity.books);
    let token = books.tokens.get(&text, identity.clock.now());
    let user = token.and_then(|token| books.user(&token.login));
    let (Some(token), Some(user)) = (token, user) else {
        return Err(ApiError::not_found(CHECK_TOKEN));
    };
    let answer = objects::authorization(&text, token, user, &identity.api_url());
    Ok(Json(answer).into_response())
}

async fn revoke_token(
    State(identity): State<Identity>,
    Path(client_id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let text = identity.about_token(&client_id, &headers, &body)?;
    if identity.revoke(&text) {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(ApiError::not_found(CHECK_TOKEN))
}

impl Identity {
    /// The token that the app asks about, after the app has authenticated itself.
    fn about_token(
        &self,
        client_id: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<String, ApiError> {
        well_formed(headers)?;
        lock(&self.books).admit_app(self.clock.now())?;
        let credentials = format!("{IDENTITY_CLIENT_ID}:{IDENTITY_CLIENT_SECRET}");
        let expected = format!("Basic {}", BASE64_STANDARD.encode(credentials));
        match headers.get(header::AUTHORIZATION) {
            None => return Err(ApiError::requires_authentication("")),
            Some(given) if given != expected.as_str() => return Err(ApiError::bad_credentials()),
            Some(_) => {}
        }
        if client_id != IDENTITY_CLIENT_ID {
            return Err(ApiError::not_found(CHECK_TOKEN));
        }
        let about: Result<AboutToken, _> = serde_json::from_slice(body);
        let about = about.map_err(|_| ApiError::no_token_given())?;
        Ok(about.access_token)
    }
}

/// The part of a list that the client asks for.
struct Page {
    per_page: Option<usize>,
    /// From 1.
    number: usize,
}

impl Page {
    fn read(query: &str) -> Self {
        let fields: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes()).collect();
        let number = |name: &str| fields.get(name)?.parse().ok().filter(|number| *number > 0);
        Page {
            per_page: number("per_page"),
            number: number("page").unwrap_or(1),
        }
    }

    fn size(&self) -> usize {
        self.per_page.unwrap_or(PER_PAGE).min(MOST_PER_PAGE)
    }

    fn start(&self) -> usize {
        (self.number - 1).saturating_mul(self.size())
    }

    /// The `Link` header, if there is more than one page.
    fn links(&self, url: &str, count: usize) -> Option<String> {
        let last = count.div_ceil(self.size()).max(1);
        let to = |number: usize, rel: &str| match self.per_page {
            Some(_) => format!(
                "<{url}?per_page={}&page={number}>; rel=\"{rel}\"",
                self.size()
            ),
            None => format!("<{url}?page={number}>; rel=\"{rel}\""),
        };
        let mut links = Vec::new();
        if self.number > 1 {
            links.push(to((self.number - 1).min(last), "prev"));
        }
        if self.number < last {
            links.push(to(self.number + 1, "next"));
            links.push(to(last, "last"));
        }
        if self.number > 1 {
            links.push(to(1, "first"));
        }
        (!links.is_empty()).then(|| links.join(", "))
    }
}
