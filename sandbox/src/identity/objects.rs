//! The API's JSON objects.

use domain::time::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::tokens::Token;
use super::users::User;
use crate::IDENTITY_CLIENT_ID;

/// A user as it is shown within other objects.
fn simple(user: &User, api: &str) -> Value {
    let User { login, id, .. } = user;
    let url = format!("{api}/users/{login}");
    json!({
        "login": login,
        "id": id,
        "node_id": format!("U_{id}"),
        "avatar_url": "",
        "gravatar_id": "",
        "url": url,
        "html_url": url,
        "followers_url": format!("{url}/followers"),
        "following_url": format!("{url}/following{{/other_user}}"),
        "gists_url": format!("{url}/gists{{/gist_id}}"),
        "starred_url": format!("{url}/starred{{/owner}}{{/repo}}"),
        "subscriptions_url": format!("{url}/subscriptions"),
        "organizations_url": format!("{url}/orgs"),
        "repos_url": format!("{url}/repos"),
        "events_url": format!("{url}/events{{/privacy}}"),
        "received_events_url": format!("{url}/received_events"),
        "type": "User",
        "site_admin": false,
    })
}

/// The user of a token, as a token without the scope `user` sees it.
pub fn profile(user: &User, api: &str) -> Value {
    let more = json!({
        "name": user.name,
        "company": null,
        "blog": "",
        "location": null,
        "email": user.public_email(),
        "hireable": null,
        "bio": null,
        "twitter_username": null,
        "public_repos": 0,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": "2020-01-14T04:33:35Z",
        "updated_at": "2026-01-14T04:33:35Z",
    });
    let mut profile = simple(user, api);
    if let (Some(profile), Value::Object(more)) = (profile.as_object_mut(), more) {
        profile.extend(more);
    }
    profile
}

/// A good token, as the app that it belongs to sees it.
pub fn authorization(text: &str, token: &Token, user: &User, api: &str) -> Value {
    let issued_at = whole_seconds(token.issued_at);
    json!({
        "id": token.nth,
        "url": format!("{api}/authorizations/{}", token.nth),
        "scopes": token.scopes,
        "token": text,
        "token_last_eight": &text[text.len() - 8..],
        "hashed_token": hex::encode(Sha256::digest(text)),
        "app": {
            "url": "https://waybill.example",
            "name": "Waybill",
            "client_id": IDENTITY_CLIENT_ID,
        },
        "note": null,
        "note_url": null,
        "updated_at": issued_at,
        "created_at": issued_at,
        "fingerprint": null,
        "expires_at": token.expires_at.map(whole_seconds),
        "user": simple(user, api),
    })
}

/// `2027-01-15T08:00:00Z`
fn whole_seconds(at: Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}
