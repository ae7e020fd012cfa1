//! The page on which a person enters a device's code, chooses a user, and approves or denies the
//! login.

use std::collections::BTreeMap;

use askama::Template;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::middleware;
use axum::response::Response;
use axum::routing::get;

use super::Identity;
use super::grant::CodeError;
use super::users::User;
use crate::lock;
use crate::page::{own_forms_only, page, see_other};

const PATH: &str = "/identity/login/device";

#[derive(Template)]
#[template(path = "device_code.html")]
struct EnterCode<'a> {
    typed: &'a str,
    /// The message that says what is wrong with the code, and what to do about it.
    problem: Option<(&'a str, &'a str)>,
}

#[derive(Template)]
#[template(path = "device_confirmation.html")]
struct Confirmation<'a> {
    user_code: &'a str,
    /// The scopes with their meanings.
    scopes: Vec<(&'a str, &'a str)>,
    /// The users' logins and descriptions.
    users: Vec<(&'a str, String)>,
}

#[derive(Template)]
#[template(path = "device_outcome.html")]
struct Outcome {
    is_approved: bool,
}

pub fn routes() -> Router<Identity> {
    Router::new()
        .route("/login/device", get(enter).post(decide))
        .route("/login/device/success", get(success))
        .route("/login/device/denied", get(denied))
        .layer(middleware::from_fn(own_forms_only))
}

async fn enter(RawQuery(query): RawQuery) -> Response {
    let fields = fields(query.unwrap_or_default().as_bytes());
    let typed = fields.get("user_code").map_or("", String::as_str);
    let problem = None;
    page(StatusCode::OK, &EnterCode { typed, problem })
}

/// Handles the form. With only a code it shows who can be chosen; with a decision it carries the
/// decision out.
async fn decide(State(identity): State<Identity>, body: Bytes) -> Response {
    let fields = fields(&body);
    let field = |name: &str| fields.get(name).map_or("", |value| value.trim());
    let typed = field("user_code");
    let (done, path) = match field("decision") {
        "approve" => (identity.approve(typed, field("login")), "success"),
        "deny" => (identity.deny(typed), "denied"),
        _ => return identity.confirm(typed),
    };
    match done {
        Ok(()) => see_other(&format!("{PATH}/{path}")),
        Err(error) => refused(typed, error),
    }
}

async fn success() -> Response {
    page(StatusCode::OK, &Outcome { is_approved: true })
}

async fn denied() -> Response {
    page(StatusCode::OK, &Outcome { is_approved: false })
}

impl Identity {
    fn confirm(&self, typed: &str) -> Response {
        let mut books = lock(&self.books);
        let now = self.clock.now();
        let grant = books.grant_of(typed).ok_or(CodeError::Unknown);
        let wish = grant.and_then(|grant| {
            grant.is_open(now)?;
            Ok((grant.user_code.clone(), grant.scopes.clone()))
        });
        match wish {
            Ok((user_code, scopes)) => {
                let found = Confirmation::new(&user_code, &scopes, &books.users);
                page(StatusCode::OK, &found)
            }
            Err(error) => refused(typed, error),
        }
    }
}

impl<'a> Confirmation<'a> {
    fn new(user_code: &'a str, scopes: &'a [String], users: &'a [User]) -> Self {
        let scopes = scopes.iter().map(|scope| (&**scope, meaning(scope)));
        let users = users.iter().map(|user| (&*user.login, user.describe()));
        Confirmation {
            user_code,
            scopes: scopes.collect(),
            users: users.collect(),
        }
    }
}

fn refused(typed: &str, error: CodeError) -> Response {
    let (status, problem, advice) = match error {
        CodeError::Unknown => (
            StatusCode::NOT_FOUND,
            "There is no such code.",
            "Compare it with the one that the device shows.",
        ),
        CodeError::Expired => (
            StatusCode::GONE,
            "This code has expired.",
            "Start again on the device, and enter the new one.",
        ),
        CodeError::Used => (
            StatusCode::CONFLICT,
            "This code was used already.",
            "If it was not you, start again on the device.",
        ),
        CodeError::UnknownUser => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "There is no such user.",
            "Choose one of the list.",
        ),
    };
    let problem = Some((problem, advice));
    page(status, &EnterCode { typed, problem })
}

fn meaning(scope: &str) -> &'static str {
    match scope {
        "read:user" => "Read the profile",
        "user:email" => "Read the e-mail addresses",
        _ => "More than Waybill needs",
    }
}

fn fields(form: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(form).into_owned().collect()
}
