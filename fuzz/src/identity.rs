//! What the identity provider answers, in whatever form and with whatever status. A login is only granted with a token
//! that can be one, times stay within their limits, and no error quotes the answer.

use std::time::Duration;

use providers::identity::answer::Reply;
use providers::identity::{IdentityError, Polled, form, is_device_code, is_token};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};

use crate::domain::input::{Input, text};

const STATUSES: [StatusCode; 10] = [
    StatusCode::OK,
    StatusCode::OK,
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::UNPROCESSABLE_ENTITY,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::FOUND,
    StatusCode::GONE,
];

/// No error of the provider has this name.
const MARK: &str = "Xq7Mark";

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() {
        0..32 => token(text(input.rest())),
        choice => answer(choice.is_multiple_of(4), input),
    }
}

fn answer(is_form: bool, mut input: Input) {
    let status = input.one_of(&STATUSES);
    let mut headers = HeaderMap::new();
    if is_form {
        let form = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
        headers.insert(CONTENT_TYPE, form);
    }
    if let Ok(after) = HeaderValue::from_bytes(input.bytes(8)) {
        headers.insert(RETRY_AFTER, after);
    }
    let body = input.rest().to_vec();
    let reply = Reply {
        status,
        headers,
        body,
    };
    checked(reply.account());
    if let Some(Some(email)) = checked(reply.email()) {
        assert!(text(&reply.body).contains('"') || email.is_empty());
    }
    let answer = reply.into_answer();
    if let Some(code) = checked(answer.device_code()) {
        assert!(is_device_code(code.device_code.expose()) && !code.user_code.is_empty());
        let links = [
            Some(&code.verification_uri),
            code.verification_uri_complete.as_ref(),
        ];
        assert!(
            links
                .into_iter()
                .flatten()
                .all(|link| link.starts_with("https://") || link.starts_with("http://"))
        );
        assert!((1..=86_400).contains(&code.expires_in) && (5..=300).contains(&code.interval));
    }
    match checked(answer.polled()) {
        Some(Polled::Granted(granted)) => {
            assert!(is_token(granted.token.expose()));
            assert!(
                !granted.scope.contains(',') && granted.scope.trim_matches(' ') == granted.scope
            );
        }
        Some(Polled::SlowDown(interval)) => {
            assert!(interval.is_none_or(|it| (5..=300).contains(&it)))
        }
        _ => {}
    }
}

fn checked<T>(answer: Result<T, IdentityError>) -> Option<T> {
    answer
        .inspect_err(|error| {
            assert!(error.wait() <= Duration::from_hours(1) && !error.wait().is_zero());
            let said = error.to_string();
            assert!(said.len() < 200 && !said.contains(MARK), "{said}");
        })
        .ok()
}

fn token(given: &str) {
    let is_misspelt = form::is_misspelt(given);
    assert!(
        !is_misspelt || (is_token(given) && given.starts_with("gh")) || given.len() > 2048,
        "{given}"
    );
    let random: String = given
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(30)
        .collect();
    let random = format!("{random:0>30}");
    let sum = form::checksum(&random);
    assert!(sum.len() == 6 && sum.bytes().all(|it| it.is_ascii_alphanumeric()));
    for prefix in ["gho_", "ghp_"] {
        let token = format!("{prefix}{random}{sum}");
        assert!(!form::is_misspelt(&token) && is_token(&token));
        assert!(form::is_misspelt(&token[..token.len() - 1]));
        let at = 4 + usize::from(given.as_bytes().first().copied().unwrap_or_default()) % 36;
        let other = if token.as_bytes()[at] == b'x' {
            "y"
        } else {
            "x"
        };
        assert!(form::is_misspelt(&format!(
            "{}{other}{}",
            &token[..at],
            &token[at + 1..]
        )));
    }
}
