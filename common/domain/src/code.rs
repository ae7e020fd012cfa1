//! The application codes: the one table of what each says, what is to be done about it, and which
//! answers carry it. The table in docs/http-api.md and the API's description are made of it, and
//! the test `codes` provokes every one of them.

use std::fmt;

use strum::VariantArray;

/// An application code, as `X-Error-Code`, log lines and stored errors carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, VariantArray)]
pub enum Code {
    NoToken,
    DeviceCode,
    Pending,
    Expired,
    Revoked,
    RateLimit,
    ForeignToken,
    Amount,
    Currency,
    ProviderTimeout,
    Signature,
    AlreadyProcessed,
    OrderNotFound,
    Privacy,
    Qr,
    Deduplication,
    Redaction,
}

/// What a code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    pub id: &'static str,
    /// A few words that clients may know the code by.
    pub message: &'static str,
    /// What its reader does.
    pub resolution: &'static str,
    /// The statuses of the answers that carry it in `X-Error-Code`; empty: no answer does.
    pub statuses: &'static [u16],
    /// When it is answered, and where beside `X-Error-Code`, in Markdown.
    pub description: &'static str,
}

impl Code {
    pub const ALL: [Code; 17] = *Code::VARIANTS.as_array().unwrap();

    pub const fn id(self) -> &'static str {
        self.meaning().id
    }

    pub const fn meaning(self) -> Meaning {
        match self {
            Code::NoToken => Meaning {
                id: "AUTH_001",
                message: "Missing or invalid token",
                resolution: "send `Authorization: Bearer <token>`: an API key (`waybill keys \
                    create` makes one) or the token of a device login",
                statuses: &[401],
                description: "the API key is missing, unknown, expired or revoked; or there is no access \
                    token",
            },
            Code::DeviceCode => Meaning {
                id: "AUTH_002",
                message: "Invalid device code",
                resolution: "begin the login again",
                statuses: &[404],
                description: "the device code was not given out here, or is no longer known",
            },
            Code::Pending => Meaning {
                id: "AUTH_003",
                message: "Authorization pending",
                resolution: "ask again after the interval",
                statuses: &[428],
                description: "nobody has approved the login yet",
            },
            Code::Expired => Meaning {
                id: "AUTH_004",
                message: "Token expired",
                resolution: "begin the login again",
                statuses: &[400, 401],
                description: "the device code has expired before anyone approved it, or the access token has ended by \
                              its time",
            },
            Code::Revoked => Meaning {
                id: "AUTH_005",
                message: "Token revoked",
                resolution: "log in again",
                statuses: &[401],
                description: "the access token was valid and is no longer",
            },
            Code::RateLimit => Meaning {
                id: "AUTH_006",
                message: "Rate limit exceeded",
                resolution: "wait as long as `Retry-After` says, 60 seconds where there is none",
                statuses: &[429],
                description: "too many deliveries, calls of an API key, pages, logins, polls or \
                    validations",
            },
            Code::ForeignToken => Meaning {
                id: "AUTH_007",
                message: "Invalid GitHub token",
                resolution: "log in again",
                statuses: &[401],
                description: "the access token is not one of the identity provider's, or not of our app",
            },
            Code::Amount => Meaning {
                id: "COMMERCE_001",
                message: "Invalid payment amount",
                resolution: "send a positive amount: in a checkout an integer in cents, in a QR \
                    code a number, or a text with two decimals at most",
                statuses: &[400, 422],
                description: "an amount of a checkout or of a payment's QR code is zero, negative, not a \
                    number or too large",
            },
            Code::Currency => Meaning {
                id: "COMMERCE_002",
                message: "Currency not supported",
                resolution: "use USD, EUR, GBP or MXN only",
                statuses: &[400, 422],
                description: "a checkout or a payment's QR code is in another currency, or a checkout in \
                    several",
            },
            Code::ProviderTimeout => Meaning {
                id: "COMMERCE_003",
                message: "Provider API timeout",
                resolution: "wait: a run tries four times, after pauses of 1, 2 and 4 s; a job is \
                    then run again, 12 times in all, before it is dead",
                statuses: &[503],
                description: "a provider does not answer, or answers \"later\"; `last_error` of the job \
                    (`waybill jobs show`), the log line of its failure, and `error` of the events \
                    `order.refund_failed` and `order.fulfillment_failed`",
            },
            Code::Signature => Meaning {
                id: "COMMERCE_004",
                message: "Invalid webhook signature",
                resolution: "compare the secret with the provider's; for payments also the clock",
                statuses: &[401],
                description: "a webhook's signature is missing or wrong",
            },
            Code::AlreadyProcessed => Meaning {
                id: "COMMERCE_005",
                message: "Payment already processed",
                resolution: "do not retry; for another checkout use a new `Idempotency-Key`. A \
                    job is done then, and nothing is asked again",
                statuses: &[409],
                description: "a checkout has been paid; a payment had been refunded, paid or canceled \
                    before: state `already_refunded` of the refund, and the same of the event \
                    `order.refund_issued`; `code` of a retry (`waybill payments show`)",
            },
            Code::OrderNotFound => Meaning {
                id: "COMMERCE_006",
                message: "Order not found",
                resolution: "check the id, and `shop` if you sent one",
                statuses: &[404],
                description: "there is no such order",
            },
            Code::Privacy => Meaning {
                id: "COMMERCE_007",
                message: "GDPR request failed",
                resolution: "see `last_error` (`waybill privacy show`), look at \
                    `PRIVACY_EXPORT_URL`, then `waybill privacy retry`",
                statuses: &[409, 410, 503],
                description: "a privacy request failed, or its export is not there or cannot be read; \
                    also `code` of a request that failed, of its events and log lines",
            },
            Code::Qr => Meaning {
                id: "COMMERCE_008",
                message: "QR generation failed",
                resolution: "mend what the text names: what is encoded, its length, or the level \
                    of error correction",
                statuses: &[422],
                description: "what is to be encoded is empty, too long or of no known kind; also the log \
                    line of a parcel that gets no code",
            },
            Code::Deduplication => Meaning {
                id: "COMMERCE_009",
                message: "Webhook deduplication failed",
                resolution: "try again after `Retry-After`; look at the database, which remembers \
                    the ids",
                statuses: &[503],
                description: "a delivery cannot be stored, so nobody knows whether it is a duplicate either",
            },
            Code::Redaction => Meaning {
                id: "COMMERCE_010",
                message: "PII redaction error",
                resolution: "the value was left out, so nothing got out; report the line, and \
                    look at `COMMERCE_PII_REDACTION_ENABLED`",
                statuses: &[],
                description: "a value of a log line or of `last_error` could not be redacted: \
                    `[withheld: COMMERCE_010]` stands in its place, and \
                    `waybill_redaction_failures_total` counts it",
            },
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
