//! The web application flow: a browser goes to the identity provider and comes back with a code, for which the provider
//! says whose it is (RFC 6749, section 4.1). With PKCE (RFC 7636) a code is of use only to whoever began.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Client, StatusCode, Url};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Identity, IdentityError, counted, is_token};
use domain::account::Account;
use platform::token::Token;

/// Where the browser comes back to, and what only this browser's sign-in has.
#[derive(Clone, Copy)]
pub struct Back<'a> {
    /// The provider sends the browser to this address. It must be registered there.
    pub address: &'a str,
    /// 43 to 128 letters, digits and `-._~`.
    pub verifier: &'a str,
}

impl Identity {
    /// Whether the application can sign browsers in. The provider demands its secret for that.
    pub fn signs_browsers_in(&self) -> bool {
        self.settings.client_secret.is_some()
    }

    /// The page of the provider on which somebody lets our application know who they are. It asks for no scope, so the
    /// application learns nothing but the public profile. `None`: the address in the settings is none.
    pub fn page(&self, back: Back<'_>, state: &str) -> Option<String> {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(back.verifier.as_bytes()));
        let mut url = Url::parse(&format!("{}/login/oauth/authorize", self.settings.url)).ok()?;
        url.query_pairs_mut()
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", back.address)
            .append_pair("state", state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("allow_signup", "false");
        Some(url.into())
    }

    /// The token for a code with which a browser came back. `None`: the code is wrong, was used, or has expired.
    pub async fn token_of(
        &self,
        code: &str,
        back: Back<'_>,
    ) -> Result<Option<Token>, IdentityError> {
        counted("code", self.ask_for_token(code, back)).await
    }

    async fn ask_for_token(
        &self,
        code: &str,
        back: Back<'_>,
    ) -> Result<Option<Token>, IdentityError> {
        let secret = self.settings.client_secret.as_ref();
        let form = [
            ("client_id", self.settings.client_id.as_str()),
            ("client_secret", secret.map_or("", Token::expose)),
            ("code", code),
            ("redirect_uri", back.address),
            ("code_verifier", back.verifier),
        ];
        let answer = self.login("/login/oauth/access_token", &form).await?;
        let field = |name: &str| answer.fields.get(name).map(String::as_str);
        match (field("error"), field("access_token")) {
            (Some("bad_verification_code" | "invalid_grant"), _) => Ok(None),
            (Some(error), _) => Err(answer.refused(error)),
            (None, Some(token)) if is_token(token) => Ok(Some(Token::new(token))),
            (None, _) => Err(answer.not_its_own()),
        }
    }

    /// The account that a token belongs to. `None`: the token is worthless.
    pub async fn account_of(&self, token: &Token) -> Result<Option<Account>, IdentityError> {
        let question = async {
            let reply = self.ask(token.expose(), "/user").await?;
            match reply.status {
                StatusCode::OK => {}
                StatusCode::UNAUTHORIZED if reply.object().is_some() => return Ok(None),
                StatusCode::FORBIDDEN if reply.is_suspension() => return Ok(None),
                _ => return Err(self.no_answer(&reply)),
            }
            reply.account().map(Some)
        };
        counted("account", question).await
    }

    /// Revokes a token that is not needed any more.
    pub async fn revoke(&self, token: &Token) -> Result<(), IdentityError> {
        let path = format!("/applications/{}/token", self.settings.client_id);
        let secret = self.settings.client_secret.as_ref().map(Token::expose);
        let request = self
            .api(Client::delete, &path)
            .basic_auth(&self.settings.client_id, secret)
            .json(&json!({ "access_token": token.expose() }));
        let question = async {
            let reply = self.send_and_read(request).await?;
            match reply.status {
                StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(()),
                _ => Err(self.no_answer(&reply)),
            }
        };
        counted("revoke", question).await
    }
}
