//! Operators sign in through the identity provider: the browser goes there and comes back with a code, and the account that the
//! provider then names has a key that says what it may do. So revoking the key ends it all, as for everybody else.
//!
//! What belongs to one sign-in is in a cookie of this browser alone, so nobody can be signed in by a link that somebody
//! else began. The provider's token is used for one question, and then revoked.

use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Redirect, Response};
use platform::task;
use platform::token::Token;
use providers::identity::{Back, Identity};
use subtle::ConstantTimeEq as _;

use crate::access::{Stranger, is_own_path};
use crate::error::Error;
use crate::frame;
use lists::shown;

/// Where the provider sends the browser.
pub const BACK: &str = "/sign-in/back";

/// A sign-in that has begun, as the cookie has it.
struct Attempt {
    secret: String,
    /// The page to which it leads.
    next: String,
}

impl Attempt {
    fn cookie(&self) -> String {
        format!("{}.{}", self.secret, shown::escaped(&self.next))
    }

    fn read(cookie: &str) -> Option<Self> {
        let (secret, next) = cookie.split_once('.')?;
        let next = percent_encoding::percent_decode_str(next)
            .decode_utf8()
            .ok()?;
        (secret.len() == 64).then(|| Attempt {
            secret: secret.to_owned(),
            next: next.into_owned(),
        })
    }

    /// What the provider sends back, so that only this browser can end what it has begun.
    fn state(&self, stranger: &Stranger) -> String {
        stranger.code("sign-in state", &self.secret)
    }

    /// What shows the provider that the same console asks for the token as sent the browser.
    fn verifier(&self, stranger: &Stranger) -> String {
        stranger.code("sign-in verifier", &self.secret)
    }
}

/// Sends the browser to the provider.
pub async fn begin(stranger: Stranger) -> Result<Response, Error> {
    let identity = stranger.identity().ok_or(Error::NoIdentity)?;
    let next = stranger.query.get("next");
    let attempt = Attempt {
        secret: stranger.secret(),
        next: if is_own_path(next) { next } else { "/" }.to_owned(),
    };
    let (address, verifier) = (stranger.address_of(BACK), attempt.verifier(&stranger));
    let back = Back {
        address: &address,
        verifier: &verifier,
    };
    let page = identity.page(back, &attempt.state(&stranger));
    let page = page.ok_or(Error::NoIdentity)?;
    let cookie = stranger.attempt_cookie(&attempt.cookie());
    Ok(([(SET_COOKIE, cookie)], Redirect::to(&page)).into_response())
}

/// The browser has come back.
pub async fn end(stranger: Stranger) -> Result<Response, Error> {
    let identity = stranger.identity().ok_or(Error::NoIdentity)?;
    stranger.admit()?;
    let attempt = stranger.attempt().and_then(Attempt::read);
    let given = stranger.query.get("state");
    let attempt = attempt.filter(|it| {
        let own = it.state(&stranger);
        bool::from(own.as_bytes().ct_eq(given.as_bytes()))
    });
    // It is not counted: nobody can guess a state, and any page that an operator visits can have their browser come here.
    let Some(attempt) = attempt else {
        return Err(Error::NotBegun);
    };
    if !stranger.query.get("error").is_empty() {
        return Err(Error::Denied);
    }
    let (address, verifier) = (stranger.address_of(BACK), attempt.verifier(&stranger));
    let back = Back {
        address: &address,
        verifier: &verifier,
    };
    let token = identity.token_of(stranger.query.get("code"), back).await?;
    let Some(token) = token else {
        stranger.worthless();
        return Err(Error::NotBegun);
    };
    let account = identity.account_of(&token).await;
    revoke(identity.clone(), token);
    let account = account?.ok_or(Error::Denied)?;
    let session = stranger.sign_in_account(account.provider_id).await?;
    let cookies = [
        (SET_COOKIE, session),
        (SET_COOKIE, stranger.attempt_cookie("")),
    ];
    // A browser that another site has sent here would not send the new cookie with a redirect, but does with the next
    // page that this one asks for.
    let page = frame::signed_in(&attempt.next);
    Ok((axum::response::AppendHeaders(cookies), page).into_response())
}

fn revoke(identity: Identity, token: Token) {
    task::spawn("token of a sign-in", async move {
        if let Err(error) = identity.revoke(&token).await {
            tracing::info!(%error, "the token of a sign-in could not be revoked at the identity provider");
        }
    });
}
