//! The page on which a device's code is entered, someone chosen, and the device let in or not.

use std::collections::BTreeMap;
use std::fmt::Write;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::middleware;
use axum::response::Response;
use axum::routing::get;

use super::grant::CodeError;
use super::{Books, Identity};
use crate::lock;
use crate::page::{Text, own_forms_only, page, see_other};

const PATH: &str = "/identity/login/device";
const TITLE: &str = "Sign in a device";

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
    page(StatusCode::OK, TITLE, &entry(typed, None))
}

/// The code alone shows whom it lets in; with a decision it is done.
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
    let body = r#"<h1>The device is signed in</h1>
<p class="status">Approved. You can close this page and go back to the device.</p>"#;
    page(StatusCode::OK, TITLE, body)
}

async fn denied() -> Response {
    let body = r#"<h1>The device is not signed in</h1>
<p class="status ended">Denied. Its code is of no use any more.</p>"#;
    page(StatusCode::OK, TITLE, body)
}

impl Identity {
    fn confirm(&self, typed: &str) -> Response {
        let mut books = lock(&self.books);
        let now = self.clock.now();
        let grant = books.grant_of(typed).ok_or(CodeError::Unknown);
        let wish = grant.and_then(|grant| {
            grant.is_open(now)?;
            Ok(Wish {
                user_code: grant.user_code.clone(),
                scopes: grant.scopes.clone(),
            })
        });
        match wish {
            Ok(wish) => page(StatusCode::OK, TITLE, &confirmation(&books, &wish)),
            Err(error) => refused(typed, error),
        }
    }
}

fn refused(typed: &str, error: CodeError) -> Response {
    let (status, what, then) = match error {
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
    page(status, TITLE, &entry(typed, Some((what, then))))
}

fn entry(typed: &str, wrong: Option<(&str, &str)>) -> String {
    let mut body = format!("<h1>{TITLE}</h1>");
    if let Some((what, then)) = wrong {
        let _ = write!(
            body,
            r#"<p class="notice" role="alert"><strong>{what}</strong> {then}</p>"#
        );
    }
    let _ = write!(
        body,
        r#"<form method="post" action="{PATH}" class="stack"><label>The code that the device shows <input name="user_code" value="{}" placeholder="WDJB-MJHT" autocomplete="off" autocapitalize="characters" spellcheck="false" required autofocus></label><button class="main">Continue</button></form>"#,
        Text(typed)
    );
    body
}

/// What a device asks for.
struct Wish {
    user_code: String,
    scopes: Vec<String>,
}

fn confirmation(books: &Books, wish: &Wish) -> String {
    let user_code = Text(&wish.user_code);
    let mut body = format!(
        r#"<h1>Let this device in?</h1>
<p>A device that shows the code <strong class="code">{user_code}</strong> wants to sign in to <strong>Waybill</strong>. Go on only if it is yours.</p>
<ul class="lines">"#
    );
    for scope in &wish.scopes {
        let _ = write!(
            body,
            r#"<li><span>{}</span><span class="number">{}</span></li>"#,
            Text(meaning(scope)),
            Text(scope)
        );
    }
    let _ = write!(
        body,
        r#"</ul>
<form method="post" action="{PATH}" class="stack"><input type="hidden" name="user_code" value="{user_code}"><label>Who signs in <select name="login">"#
    );
    for user in &books.users {
        let _ = write!(
            body,
            r#"<option value="{}">{}</option>"#,
            Text(&user.login),
            Text(user.describe())
        );
    }
    body += r#"</select></label><button class="main" name="decision" value="approve">Approve</button><button name="decision" value="deny">Deny</button></form>"#;
    body
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
