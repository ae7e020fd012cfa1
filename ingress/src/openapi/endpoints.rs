//! The operations of endpoints, to which events are sent as webhooks.

use domain::api_key::Scope;
use providers::endpoints::AddressError;
use serde_json::{Value, json};
use store::endpoints::Endpoint;

use super::bodies;
use super::commerce::{OF_A_BODY, OF_A_KEY};
use super::operation::{Operation, delete, get, in_path, post};
use crate::error::Error;
use crate::routes::{EndpointTest, Endpoints, NewEndpoint, RotatedSecret};

const READ: Error = Error::MissingScope(Scope::EndpointsRead);
const WRITE: Error = Error::MissingScope(Scope::EndpointsWrite);

pub fn operations() -> Vec<Operation> {
    let list = by_key(get(
        "/api/endpoints",
        "listEndpoints",
        "Where events are sent as webhooks",
    ))
    .answers::<Endpoints>(200, "The endpoints, the oldest first.")
    .errors(&[READ]);
    let add = by_key(post(
        "/api/endpoints",
        "addEndpoint",
        "Send events to an address as webhooks",
    ))
    .about(
        "Webhooks are signed as in Standard Webhooks, with the `secret` of the answer, which is shown this \
         one time. The endpoint gets the events that happen from now on, or those of the last \
         `since_seconds` too.",
    )
    .takes(bodies::endpoint())
    .answers::<NewEndpoint>(201, "The endpoint and its secret.")
    .errors(&OF_A_BODY)
    .errors(&[
        WRITE,
        Error::NotJson,
        Error::NotAnObject,
        Error::Field { line: 1, column: 9 },
        Error::EndpointTypes,
        Error::EndpointTooLong,
        Error::TooManyEndpoints,
        Error::EndpointAddress(AddressError::NotAUrl),
        Error::EndpointAddress(AddressError::Credentials),
        Error::EndpointAddress(AddressError::Cleartext),
        Error::EndpointAddress(AddressError::Private),
    ]);
    let show = of_one(get("/api/endpoints/{id}", "getEndpoint", "An endpoint"))
        .answers::<Endpoint>(200, "The endpoint.")
        .errors(&[READ]);
    let remove = of_one(delete(
        "/api/endpoints/{id}",
        "removeEndpoint",
        "Remove an endpoint and what waits for it",
    ))
    .answers_nothing(204, "It is removed.")
    .errors(&[WRITE]);
    let pause = of_one(post(
        "/api/endpoints/{id}/pause",
        "pauseEndpoint",
        "Send no events to an endpoint until it is resumed",
    ))
    .answers::<Endpoint>(200, "The endpoint as it is then.")
    .errors(&[WRITE]);
    let resume = of_one(post(
        "/api/endpoints/{id}/resume",
        "resumeEndpoint",
        "Send events to an endpoint again",
    ))
    .about("It begins with those that wait, which are due at once.")
    .answers::<Endpoint>(200, "The endpoint as it is then.")
    .errors(&[WRITE]);
    let rotate = of_one(post(
        "/api/endpoints/{id}/rotate",
        "rotateEndpoint",
        "Give an endpoint another secret",
    ))
    .about("For a day webhooks are signed with both secrets.")
    .answers::<RotatedSecret>(200, "The new secret.")
    .errors(&[WRITE]);
    let test = of_one(post(
        "/api/endpoints/{id}/test",
        "testEndpoint",
        "Send a test event to an endpoint",
    ))
    .about("The event's type is `endpoint.test`. The answer comes after at most 15 seconds.")
    .answers::<EndpointTest>(200, "Whether the endpoint accepted it.")
    .errors(&[WRITE]);
    vec![list, add, show, remove, pause, resume, rotate, test]
}

fn by_key(operation: Operation) -> Operation {
    operation
        .tag("Events")
        .needs("apiKey")
        .errors(&OF_A_KEY)
        .errors(&[Error::EndpointShops])
}

fn of_one(operation: Operation) -> Operation {
    by_key(operation)
        .parameters([id()])
        .errors(&[Error::EndpointNotFound])
}

fn id() -> Value {
    in_path(
        "id",
        "The endpoint's id.",
        &json!({"type": "string", "format": "uuid"}),
        "01a3185c-5000-7cc3-98c4-dc0c0c07398f",
    )
}
