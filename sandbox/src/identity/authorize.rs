//! The web application flow: a page on which a person chooses who they are, and the way back with a code. A code yields
//! one token, only once, to whoever has the verifier of its challenge.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::time::Timestamp;
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::refusal::Refusal;
use super::{Identity, codes};
use crate::page::{page, problem};
use crate::{IDENTITY_CLIENT_ID, lock};

const LIFE: Duration = Duration::from_mins(10);

/// A code that was given to a browser.
pub struct Code {
    login: String,
    redirect_uri: String,
    challenge: String,
    expires_at: Timestamp,
}

#[derive(Template)]
#[template(path = "authorize.html")]
struct Choose<'a> {
    /// The description of each user, and the query of the address that sends the browser back as this one.
    ways: Vec<(String, String)>,
    denied: &'a str,
}

pub fn routes() -> Router<Identity> {
    Router::new()
        .route("/login/oauth/authorize", get(choose))
        .route("/login/oauth/authorize/as", get(go_back))
}

async fn choose(State(identity): State<Identity>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let fields = fields(&query);
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    if field("client_id") != IDENTITY_CLIENT_ID {
        return problem(StatusCode::NOT_FOUND, "There is no such application");
    }
    if field("code_challenge_method") != "S256" || field("state").is_empty() {
        let what = "This stand-in demands state and a challenge with S256";
        return problem(StatusCode::BAD_REQUEST, what);
    }
    let way = |login: &str| {
        form_urlencoded::Serializer::new(String::new())
            .append_pair("login", login)
            .extend_pairs(fields.iter().filter(|(name, _)| *name != "login"))
            .finish()
    };
    let books = lock(&identity.books);
    let users = books.users.iter();
    let ways = users.map(|user| (user.describe(), way(&user.login)));
    let shown = Choose {
        ways: ways.collect(),
        denied: &way(""),
    };
    page(StatusCode::OK, &shown)
}

/// Sends the browser back, with a code or with the refusal.
async fn go_back(State(identity): State<Identity>, RawQuery(query): RawQuery) -> Response {
    let fields = fields(&query.unwrap_or_default());
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let Ok(mut back) = Url::parse(field("redirect_uri")) else {
        return problem(StatusCode::BAD_REQUEST, "The redirect_uri is no address");
    };
    let mut books = lock(&identity.books);
    let login = books.user(field("login")).map(|user| user.login.clone());
    match login {
        None => {
            back.query_pairs_mut()
                .append_pair("error", "access_denied")
                .append_pair(
                    "error_description",
                    "The user has denied your application access.",
                );
        }
        Some(login) => {
            let code = codes::web_code(&identity.clock.id().to_string());
            let given = Code {
                login,
                redirect_uri: field("redirect_uri").to_owned(),
                challenge: field("code_challenge").to_owned(),
                expires_at: identity.clock.now().plus(LIFE),
            };
            back.query_pairs_mut().append_pair("code", &code);
            books.codes.insert(code, given);
        }
    }
    back.query_pairs_mut().append_pair("state", field("state"));
    Redirect::to(back.as_str()).into_response()
}

impl Identity {
    /// Gives out the token of a code.
    pub(super) fn token_of(
        &self,
        code: &str,
        redirect_uri: &str,
        verifier: &str,
    ) -> Result<Value, Refusal> {
        let books = &mut *lock(&self.books);
        let given = books.codes.remove(code);
        let given = given.filter(|given| self.clock.now() < given.expires_at);
        let given = given.ok_or(Refusal::BadVerificationCode)?;
        if given.redirect_uri != redirect_uri {
            return Err(Refusal::RedirectUriMismatch);
        }
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        if challenge != given.challenge {
            return Err(Refusal::BadVerificationCode);
        }
        let token = books
            .tokens
            .issue(&self.clock, None, given.login, Vec::new());
        Ok(json!({"access_token": token, "token_type": "bearer", "scope": ""}))
    }
}

fn fields(query: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}
