//! The operations of privacy requests and exports.

use domain::api_key::Scope;
use serde_json::{Value, json};
use store::privacy_requests::History;

use super::commerce::OF_A_KEY;
use super::operation::{Operation, get, in_path, in_query, post};
use crate::error::Error;
use crate::routes::{ExportLink, PrivacyRequests};

const READ: Error = Error::MissingScope(Scope::PrivacyRead);
const WRITE: Error = Error::MissingScope(Scope::PrivacyWrite);

/// The parameter of a further operation on the same request.
const ID: (&str, &str) = ("id", "$request.path.id");

pub fn operations() -> Vec<Operation> {
    let list = by_key(get(
        "/api/privacy/requests",
        "listPrivacyRequests",
        "Privacy requests by deadline",
    ))
    .about("The nearest deadline first; without `state` those that are neither done nor cancelled.")
    .parameters(filters())
    .answers::<PrivacyRequests>(200, "The requests.")
    .errors(&[Error::PrivacyQuery, READ]);
    let show = of_a_request(get(
        "/api/privacy/requests/{id}",
        "getPrivacyRequest",
        "A privacy request and its audit",
    ))
    .answers::<History>(200, "The request.")
    .link(
        "linkPrivacyExport",
        "A link to its export, if it has one.",
        &[ID],
    )
    .link(
        "retryPrivacyRequest",
        "Starts it again, if it failed.",
        &[ID],
    )
    .link("cancelPrivacyRequest", "Cancels it, if it is held.", &[ID])
    .errors(&[READ]);
    let retry = of_a_request(post(
        "/api/privacy/requests/{id}/retry",
        "retryPrivacyRequest",
        "Start a request again that was given up",
    ))
    .answers::<History>(200, "The request as it is then.")
    .link("getPrivacyRequest", "How it stands later.", &[ID])
    .errors(&[Error::PrivacyNotFailed, WRITE]);
    let cancel = of_a_request(post(
        "/api/privacy/requests/{id}/cancel",
        "cancelPrivacyRequest",
        "Cancel the erasure of a shop that is held",
    ))
    .about("A customer's request cannot be cancelled.")
    .answers::<History>(200, "The request as it is then.")
    .link("getPrivacyRequest", "How it stands later.", &[ID])
    .errors(&[Error::PrivacyDuty, Error::PrivacyNotHeld, WRITE]);
    let link = of_a_request(post(
        "/api/privacy/requests/{id}/export-link",
        "linkPrivacyExport",
        "A link to an export, for somebody without an API key",
    ))
    .about("It is good for five minutes; who made it and who followed it is in the audit.")
    .answers::<ExportLink>(200, "The link.")
    .errors(&[
        WRITE,
        Error::PrivacyFailed,
        Error::NoExport,
        Error::ExportExpired,
    ]);
    vec![list, show, retry, cancel, link, export()]
}

fn export() -> Operation {
    let expires = json!({"type": "integer", "format": "int64"});
    let signature = json!({"type": "string"});
    let required = |mut parameter: Value| {
        parameter["required"] = true.into();
        parameter
    };
    get(
        "/api/privacy/exports/{id}",
        "getPrivacyExport",
        "The document behind a link",
    )
    .tag("Privacy")
    .needs("exportLink")
    .about("Follow a link of `linkPrivacyExport` as it is: it is signed.")
    .parameters([
        id(),
        required(in_query(
            "expires",
            "When the link ends, in Unix seconds.",
            &expires,
            1_795_000_000,
        )),
        required(in_query("signature", "Of the link.", &signature, "mY0s..")),
    ])
    .answers_with(
        200,
        "All that is held about the customer.",
        "application/json",
    )
    .header(
        "Content-Disposition",
        "Keep it as a file.",
        "attachment; filename=\"export-01a3185c.json\"",
    )
    .header(
        "X-Content-SHA256",
        "Of the document, in hex.",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    )
    .errors(&[
        Error::ExportLink,
        Error::ExportExpired,
        Error::ExportUnreadable,
        Error::Unavailable,
        Error::Internal,
    ])
}

fn by_key(operation: Operation) -> Operation {
    operation.tag("Privacy").needs("apiKey").errors(&OF_A_KEY)
}

fn of_a_request(operation: Operation) -> Operation {
    by_key(operation)
        .parameters([id()])
        .errors(&[Error::PrivacyRequestNotFound])
}

fn id() -> Value {
    let schema = json!({"type": "string", "format": "uuid"});
    in_path(
        "id",
        "The request's id.",
        &schema,
        "01a3185c-5000-7cc3-98c4-dc0c0c07398f",
    )
}

fn filters() -> [Value; 3] {
    let states = ["received", "held", "done", "cancelled", "failed", "all"];
    let state = json!({"type": "string", "enum": states});
    let shop = json!({"type": "string", "pattern": r"^[^\x00]*$"});
    let limit = json!({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100});
    [
        in_query("state", "Those in this state, or all.", &state, "failed"),
        in_query("shop", "Those of this shop.", &shop, "shop.example"),
        in_query("limit", "How many at most.", &limit, 100),
    ]
}
