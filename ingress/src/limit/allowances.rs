//! What one client may take of the service: every limit, its default, what it protects, and what is shown when it is
//! reached. The table of docs/security.md is made of it.

use config::SETTINGS;
use server::{HEADER_DEADLINE, RESERVE, SHARE, UNREAD_LIMIT, guesses};
use store::endpoints::MOST_ENDPOINTS;

use super::{
    BODY_AT_ONCE, BODY_PER_MINUTE, OF_ALL_SHOPS, PAGES_AT_ONCE, PAGES_PER_MINUTE, SHOP_AT_ONCE,
    tokens, unverified,
};
use crate::{delivery, events, intake};

const MIB: usize = 1024 * 1024;

/// A limit, in words.
#[derive(Debug)]
pub struct Allowance {
    /// What is counted, and for whom.
    pub of: &'static str,
    pub limit: String,
    pub protects: &'static str,
    /// The answer, and where an operator sees it.
    pub reached: &'static str,
}

fn allowance(
    of: &'static str,
    limit: String,
    protects: &'static str,
    reached: &'static str,
) -> Allowance {
    Allowance {
        of,
        limit,
        protects,
        reached,
    }
}

/// A setting and its default.
fn setting(name: &str) -> String {
    let default = SETTINGS.iter().find(|it| it.name == name);
    match default.and_then(|it| it.default) {
        Some(default) => format!("`{name}` ({default})"),
        None => format!("`{name}`"),
    }
}

/// Every limit, the outermost first. A network is an IPv4 address or an IPv6 /56; behind a proxy of `TRUSTED_PROXIES` it is
/// that of the client.
pub fn all() -> Vec<Allowance> {
    let connections = setting("MAX_CONNECTIONS");
    vec![
        allowance(
            "connections of a network, but of a trusted proxy",
            format!("1/{SHARE} of {connections}"),
            "other clients",
            "closed; `waybill_connections_cut_total`, `network`",
        ),
        allowance(
            "connections of all",
            format!("{connections}, 1/{SHARE} of them kept for trusted proxies"),
            "files and memory",
            "the oldest that waits for its client ends; `crowded` or `all`",
        ),
        allowance(
            "requests under way of a network",
            format!("1/{SHARE} of the connections"),
            "other clients behind a proxy",
            "429, the body unread; `requests`",
        ),
        allowance(
            "requests under way that are no webhook, probe or description",
            format!("all but 1/{RESERVE} of the connections"),
            "signed webhooks",
            "429, the body unread; `reserve`",
        ),
        allowance(
            "time for a request's headers, its body, and to read an answer",
            format!(
                "{}, {} and {} s",
                HEADER_DEADLINE.as_secs(),
                delivery::BODY_DEADLINE.as_secs(),
                UNREAD_LIMIT.as_secs()
            ),
            "connections",
            "408 or closed; `unread`",
        ),
        allowance(
            "unverified bodies of a network",
            format!("{} MiB, or two of the largest", unverified::LEAST / MIB),
            "memory for others' bodies",
            "503; `waybill refused`",
        ),
        allowance(
            "bodies of all deliveries that are read or wait",
            format!(
                "{} MiB, {} of them for bodies up to {} KiB; {} deliveries",
                intake::WAITING_KIB / 1024,
                intake::KEPT_KIB / 1024,
                intake::SMALL / 1024,
                intake::WAITING
            ),
            "memory",
            "503; `waybill refused`",
        ),
        allowance(
            "deliveries of a shop or an account that wait",
            format!(
                "as many, and as many bytes, as are left of {}",
                intake::WAITING
            ),
            "others, whose deliveries are stored by turns",
            "503; `waybill refused`",
        ),
        allowance(
            "one verified body, under any id and shop",
            format!("{BODY_AT_ONCE} at once, then {BODY_PER_MINUTE} a minute"),
            "the shares below, from who has captured a delivery",
            "429; `waybill refused`",
        ),
        allowance(
            "deliveries of a shop",
            format!(
                "{} a second, {SHOP_AT_ONCE} or more at once",
                setting("STOREFRONT_RATE_PER_SECOND")
            ),
            "other shops",
            "429; `waybill refused`",
        ),
        allowance(
            "deliveries of all shops, while any is accepted",
            format!("{OF_ALL_SHOPS} times that of one, without `STOREFRONT_SHOPS`"),
            "payments",
            "429; `waybill refused`",
        ),
        allowance(
            "payment events",
            setting("PAYMENT_RATE_PER_SECOND"),
            "orders",
            "429; `waybill refused`",
        ),
        allowance(
            "calls with an API key",
            format!("{} a second", setting("COMMERCE_RATE_PER_SECOND")),
            "other keys",
            "429",
        ),
        allowance(
            "wrong API keys of a network, and sign-ins to the console",
            format!("{} a minute", guesses::WORTHLESS),
            "keys, from guesses",
            "429; `waybill_console_sign_ins_refused_total`",
        ),
        allowance(
            "public pages of a network",
            format!("{PAGES_AT_ONCE} at once, {PAGES_PER_MINUTE} a minute"),
            "orders, from who tries ids",
            "429",
        ),
        allowance(
            "logins that a network begins",
            setting("AUTH_DEVICE_CODES_PER_15_MINUTES"),
            "what the identity provider allows",
            "429; `waybill_login_polls_total`",
        ),
        allowance(
            "validations of one token",
            setting("AUTH_VALIDATIONS_PER_MINUTE"),
            "other users",
            "429",
        ),
        allowance(
            "questions to the identity provider about unknown tokens",
            format!(
                "{} a minute, {} without `GITHUB_CLIENT_SECRET`; one network gets half",
                tokens::ASKED_AS_APP,
                tokens::FAILED_LOGINS
            ),
            "what the identity provider allows",
            "503 or 429; `waybill_tokens_asked_total`",
        ),
        allowance(
            "requests that wait for events",
            format!("{} of a key, {} of all", events::MOST_OF_KEY, events::MOST),
            "connections, the database",
            "429; `waybill_event_readers`",
        ),
        allowance(
            "endpoints of webhooks",
            MOST_ENDPOINTS.to_string(),
            "workers",
            "409",
        ),
    ]
}
