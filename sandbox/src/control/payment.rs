//! The control requests of the payment provider.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use domain::money::Currency;
use serde::Deserialize;
use serde_json::json;

use super::{CONCURRENCY, MOST_ORDERS, MOST_REPEATS, Sent, Shown, Unusable};
use crate::poster::Report;
use crate::server::App;
use crate::{DeliveryFaults, Generation, PaymentStorm, Price, Shuffle};

pub fn routes() -> Router<App> {
    Router::new()
        .route("/_control/invoice", post(invoice))
        .route("/_control/delivery_faults", post(delivery_faults))
        .route("/_control/payment_storm", post(storm))
        .route("/_control/price", post(price))
        .route("/_control/release", post(release))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewInvoice {
    subscription: String,
    months: Option<u32>,
}

async fn invoice(State(app): State<App>, Sent(new): Sent<NewInvoice>) -> Shown {
    let billed = app.payment.bill(&new.subscription, new.months);
    let invoice = billed.map_err(Unusable)?;
    Ok(Json(json!({"invoice": invoice})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPrice {
    id: String,
    name: String,
    amount: i64,
    currency: String,
    months: Option<u32>,
}

async fn price(State(app): State<App>, Sent(new): Sent<NewPrice>) -> Shown {
    let expected = |what: &str| Unusable(what.to_owned());
    let currency = Currency::parse(&new.currency);
    let currency = currency.ok_or_else(|| expected("currency: expected three letters"))?;
    if new.amount <= 0 {
        return Err(expected("amount: expected minor units, 1 or more"));
    }
    if new.months.is_some_and(|months| !(1..=36).contains(&months)) {
        return Err(expected(
            "months: expected 1 to 36, or none for a price paid once",
        ));
    }
    let id = json!({"id": new.id});
    app.payment.add_price(Price {
        id: new.id,
        name: new.name,
        amount: new.amount,
        currency,
        months: new.months,
    });
    Ok(Json(id))
}

/// The settings to make. A setting that is not named gets its usual value, but the generation
/// stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewDeliveryFaults {
    duplicates: Option<u32>,
    shuffle: Option<NewShuffle>,
    delay_ms: Option<u64>,
    #[serde(default)]
    wrong_signature: bool,
    old_secret: Option<String>,
    generation: Option<Generation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewShuffle {
    #[serde(default)]
    seed: u64,
    hold: usize,
}

async fn delivery_faults(State(app): State<App>, Sent(new): Sent<NewDeliveryFaults>) -> Shown {
    let unusable = |expected: &str| Err(Unusable(expected.to_owned()));
    let Some(webhook_sender) = &app.webhook_sender else {
        return unusable("this sandbox was started without webhooks");
    };
    let duplicates = new.duplicates.unwrap_or(1);
    if !(1..=MOST_REPEATS).contains(&duplicates) {
        return unusable("duplicates: expected 1 to 100");
    }
    let shuffle = new
        .shuffle
        .map(|NewShuffle { seed, hold }| Shuffle { seed, hold });
    if shuffle.is_some_and(|shuffle| !(1..=1000).contains(&shuffle.hold)) {
        return unusable("shuffle: expected hold to be 1 to 1000");
    }
    let delay_ms = new.delay_ms.unwrap_or(0);
    if delay_ms > 3_600_000 {
        return unusable("delay_ms: expected up to 3600000, an hour");
    }
    if new.old_secret.as_ref().is_some_and(String::is_empty) {
        return unusable("old_secret: expected a secret");
    }
    if let Some(generation) = new.generation {
        app.payment.set_generation(generation);
    }
    webhook_sender.set_delivery_faults(DeliveryFaults {
        duplicates,
        shuffle,
        delay: Duration::from_millis(delay_ms),
        wrong_signature: new.wrong_signature,
        old_secret: new.old_secret,
    });
    Ok(Json(webhook_sender.view()["delivery_faults"].take()))
}

async fn release(State(app): State<App>) -> StatusCode {
    app.payment.release();
    StatusCode::NO_CONTENT
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewStorm {
    payments: u64,
    repeat: Option<u32>,
    seed: Option<u64>,
    first_seed: Option<u64>,
    concurrency: Option<usize>,
}

impl NewStorm {
    /// As usual, with so many payments.
    pub(super) fn of(payments: u64) -> Self {
        NewStorm {
            payments,
            ..NewStorm::default()
        }
    }
}

async fn storm(State(app): State<App>, Sent(new): Sent<NewStorm>) -> Shown {
    let (seed, report) = post_storm(&app, new).await?;
    Ok(Json(json!({"seed": seed, "report": report})))
}

pub(super) async fn post_storm(app: &App, new: NewStorm) -> Result<(u64, Report), Unusable> {
    let usual = PaymentStorm::default();
    let repeat = new.repeat.unwrap_or(*usual.repeat.end());
    if !(1..=MOST_ORDERS).contains(&new.payments) {
        return Err(Unusable(format!("payments: expected 1 to {MOST_ORDERS}")));
    }
    if !(1..=MOST_REPEATS).contains(&repeat) {
        return Err(Unusable(format!("repeat: expected 1 to {MOST_REPEATS}")));
    }
    let seed = new.seed.unwrap_or(app.clock.now().0.unsigned_abs());
    let storm = PaymentStorm {
        payments: new.payments,
        first_seed: new.first_seed.unwrap_or(seed),
        repeat: 1..=repeat,
        seed,
        ..usual
    };
    let deliveries = app.payment.add_storm(&storm);
    let concurrency = new.concurrency.unwrap_or(CONCURRENCY);
    let report = app.post(&deliveries, concurrency).await;
    let report = report.map_err(|error| Unusable(error.to_string()))?;
    Ok((seed, report))
}
