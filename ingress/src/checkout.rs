//! A checkout through the API, in steps that each may be done again.
//!
//! 1. Whoever has used this idempotency key before goes on where it stopped, at step 4.
//! 2. Prices of variants are asked of the storefront, never of the caller.
//! 3. One transaction: the `checkouts` row and our order, pending. Of two calls with one key
//!    one inserts, and both go on with its row: its items, its agreement.
//! 4. With no transaction open the payment provider opens the page. The row's id is its
//!    idempotency key, so however often it is asked, and by whomever, there is one page.
//! 5. The answer is written down: the page, or that it is refused, which calls the order off.
//!
//! A page ends. Who asks again after that is sent through step 4 once more, for the same order
//! and at the same prices; the ended session is part of the idempotency key then, so of all who
//! ask there is again one page. Nobody is sent to a page for an order that is paid or cancelled.
//!
//! The order has the key that a session of its agreement makes (`orders::checkout_key`), so the
//! session's event joins it. All of it runs in a task that no client cancels.

pub mod problem;
pub mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::checkout::{self, Article, Item};
use domain::event::{Event, LastEvent, OrderEvent};
use domain::money::Money;
use domain::order::outcome::summary;
use domain::order::record::Cancellation;
use domain::time::Timestamp;
use platform::trace;
use providers::payment::{self, CURRENCIES, NewSession, Payment};
use providers::{CallFailure, storefront};
use store::checkouts::{self, Checkout, New, Page, Refusal, Standing, State};
use store::events;
use store::fulfillments::{self, Moved};
use store::orders::checkout_key;
use store::orders::records::{self, OrderEntry, OrderKey};
use store::payments;
use store::qr_codes::{self, QrCode};
use uuid::Uuid;

use self::problem::{CheckoutError, CheckoutProblem};
use self::request::{Wanted, Wish};
use crate::App;
use crate::error::Error;

/// By then the provider is asked again.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// Why an order is called off whose checkout the provider refused.
pub const REFUSED: &str = "checkout_refused";

/// Who asks, and by which key it can ask again.
pub struct Caller {
    pub api_key_id: Uuid,
    pub idempotency_key: Option<String>,
}

/// A checkout that is open.
pub struct Opened {
    pub pact_id: String,
    pub order_id: i64,
    pub page: Page,
}

pub async fn open(app: &Arc<App>, caller: &Caller, wish: &Wish) -> Result<Opened, Error> {
    let payment = app.payment.as_ref().ok_or(Error::CheckoutNotSetUp)?;
    let request_key = app.keys.body(&json_of(wish)?);
    let key = caller.idempotency_key.as_ref();
    let key = key.map(|key| app.keys.body(key.as_bytes()));
    let known = match key {
        Some(key) => checkouts::find(&app.db, caller.api_key_id, key).await?,
        None => None,
    };
    let is_known = known.is_some();
    let checkout = if let Some(known) = known {
        known
    } else {
        start(app, caller.api_key_id, key, request_key, wish).await?
    };
    if checkout.request_key != request_key {
        return Err(Error::IdempotencyKeyReused);
    }
    if is_known {
        is_payable(app, &checkout).await?;
    }
    resume(app, payment, checkout, wish).await
}

/// Whether the buyer may still be sent to pay.
async fn is_payable(app: &App, checkout: &Checkout) -> Result<(), Error> {
    let session_id = match &checkout.state {
        // Its order is cancelled because of that.
        State::Refused(_) => return Ok(()),
        State::Pending => None,
        State::Open(page) => Some(page.session_id.as_str()),
    };
    match checkouts::standing(&app.db, checkout.order_id, session_id).await? {
        Standing::Payable => Ok(()),
        Standing::Paid => Err(Error::CheckoutPaid),
        Standing::Cancelled => Err(Error::CheckoutCancelled),
    }
}

/// Steps 2 and 3.
async fn start(
    app: &App,
    api_key_id: Uuid,
    idempotency_key: Option<Uuid>,
    request_key: Uuid,
    wish: &Wish,
) -> Result<Checkout, Error> {
    let items = price(app, wish).await?;
    let id = app.clock.id();
    let pact_id = format!("pact_{}", id.simple());
    let checked = session(&pact_id, &items, wish).check();
    checked.map_err(|failure| unpayable(&failure))?;
    let (_, order_id) = checkout_key(&pact_id);
    let new = New {
        id,
        api_key_id,
        idempotency_key,
        request_key,
        pact_id: &pact_id,
        order_id,
        items: &items,
    };
    begin(app, &new).await
}

fn json_of(wish: &Wish) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(wish).map_err(|_| Error::Internal)
}

/// Everything that is wanted, at the prices of this moment.
async fn price(app: &App, wish: &Wish) -> Result<Vec<Item>, Error> {
    let ids = wish.items.iter().filter_map(|item| match item.what {
        request::Article::Variant(id) => Some(id),
        _ => None,
    });
    let ids: BTreeSet<i64> = ids.collect();
    let variants = if ids.is_empty() {
        BTreeMap::new()
    } else {
        let storefront = app.storefront.as_ref();
        let storefront = storefront.ok_or(CheckoutError::from(CheckoutProblem::NoStorefront))?;
        let variants = storefront.variants(wish.shop.as_deref(), &ids).await;
        variants.map_err(|failure| unavailable(&failure))?
    };
    let items = wish.items.iter().enumerate();
    let items = items.map(|(nth, item)| {
        priced(item, &variants).map_err(|what| CheckoutError {
            item: Some(nth),
            what,
        })
    });
    Ok(items.collect::<Result<_, CheckoutError>>()?)
}

fn priced(
    item: &Wanted,
    variants: &BTreeMap<i64, storefront::Variant>,
) -> Result<Item, CheckoutProblem> {
    let article = match &item.what {
        request::Article::Variant(id) => {
            let variant = variants.get(id).ok_or(CheckoutProblem::UnknownVariant)?;
            if !CURRENCIES.contains(&variant.price.currency.as_str()) {
                return Err(CheckoutProblem::VariantCurrency);
            }
            Article::Priced {
                name: variant.name.clone(),
                amount: variant.price.minor,
                currency: variant.price.currency,
                variant_id: Some(*id),
                sku: variant.sku.clone(),
            }
        }
        request::Article::Known(price) => Article::Known {
            price: price.clone(),
        },
        request::Article::Named {
            name,
            amount,
            currency,
        } => Article::Priced {
            name: name.clone(),
            amount: *amount,
            currency: *currency,
            variant_id: None,
            sku: None,
        },
    };
    Ok(Item {
        article,
        quantity: item.quantity,
    })
}

/// Step 3. What is answered is the row of whoever was first.
async fn begin(app: &App, new: &New<'_>) -> Result<Checkout, Error> {
    let now = app.clock.now();
    let key = checkout_key(new.pact_id);
    let symbol = app.config.qr.order(&new.order_id.to_string());
    let symbol = symbol.map_err(|_| Error::Internal)?;
    let code = QrCode {
        shop: key.0.clone(),
        order_id: key.1,
        kind: qr_codes::TRACKING,
        url: symbol.url.clone(),
        modules: symbol.packed(),
    };
    let mut tx = app.db.begin().await?;
    if !checkouts::insert(&mut tx, new, now).await? {
        tx.rollback().await?;
        let idempotency_key = new.idempotency_key.ok_or(Error::Internal)?;
        let first = checkouts::find(&app.db, new.api_key_id, idempotency_key).await?;
        return first.ok_or(Error::Internal);
    }
    let record = checkout::order(new.items, new.pact_id, now.0);
    let created = OrderEvent::Created(summary(&record));
    let state = record.fulfillment_state();
    let mut last_event = LastEvent::before(now);
    let created = event(app, &mut last_event, &key, created, now);
    let entry = OrderEntry {
        record,
        events_at: last_event,
    };
    let orders = BTreeMap::from([(key.clone(), entry)]);
    records::insert_new(&mut tx, &orders, now).await?;
    payments::lock_pacts(&mut tx, [new.pact_id.to_owned()]).await?;
    let moved = Moved {
        key: &key,
        state,
        to_provider: false,
        requested: None,
    };
    fulfillments::save(&mut tx, &[moved], now).await?;
    qr_codes::insert(&mut tx, &[code], now).await?;
    events::insert(&mut tx, &[created], app.config.outlet(), now).await?;
    tx.commit().await?;
    Ok(Checkout {
        id: new.id,
        request_key: new.request_key,
        pact_id: new.pact_id.to_owned(),
        order_id: new.order_id,
        items: new.items.to_vec(),
        state: State::Pending,
    })
}

/// Steps 4 and 5, or the answer that is there already.
async fn resume(
    app: &App,
    payment: &Payment,
    checkout: Checkout,
    wish: &Wish,
) -> Result<Opened, Error> {
    let page = match checkout.state.clone() {
        State::Open(page) if page.is_over(app.clock.now()) => {
            ask(app, payment, &checkout, wish, Some(&page)).await?
        }
        State::Open(page) => page,
        State::Refused(refusal) => return Err(refusal.into()),
        State::Pending => ask(app, payment, &checkout, wish, None).await?,
    };
    Ok(Opened {
        pact_id: checkout.pact_id,
        order_id: checkout.order_id,
        page,
    })
}

/// Asks for a page, in place of one that has ended if there was one.
async fn ask(
    app: &App,
    payment: &Payment,
    checkout: &Checkout,
    wish: &Wish,
    ended: Option<&Page>,
) -> Result<Page, Error> {
    let wanted = session(&checkout.pact_id, &checkout.items, wish);
    let key = match ended {
        None => checkout.id.to_string(),
        Some(page) => format!(
            "{}-{}",
            checkout.id,
            app.keys.body(page.session_id.as_bytes())
        ),
    };
    let opened = payment.checkout(&wanted, &key).await;
    match opened {
        Ok(session) => {
            let page = Page {
                session_id: session.id,
                url: session.url,
                expires_at: session.expires_at.map(Timestamp::from_unix_seconds),
            };
            let mut tx = app.db.begin().await?;
            checkouts::open(&mut tx, checkout.id, ended, &page, app.clock.now()).await?;
            tx.commit().await?;
            Ok(page)
        }
        Err(failure) if failure.is_final() => {
            let refusal = match &failure {
                CallFailure::InvalidAmount(_) => Refusal::Amount,
                CallFailure::UnsupportedCurrency(_) => Refusal::Currency,
                _ => Refusal::Provider,
            };
            tracing::info!(error = %failure, checkout = %checkout.id, "a checkout was refused");
            // Whoever paid on the page that has ended may still be heard of.
            if ended.is_none() {
                call_off(app, checkout, refusal).await?;
            }
            Err(refusal.into())
        }
        Err(failure) => Err(unavailable(&failure)),
    }
}

fn session(pact_id: &str, items: &[Item], wish: &Wish) -> NewSession {
    NewSession {
        items: sold(items),
        success_url: wish.success_url.clone(),
        cancel_url: wish.cancel_url.clone(),
        client_reference_id: wish.client_reference_id.clone(),
        pact_id: pact_id.to_owned(),
        customer_email: wish.customer_email.clone(),
    }
}

/// The items as the payment provider's client takes them.
fn sold(items: &[Item]) -> Vec<(payment::Item, i64)> {
    let sold = items.iter().map(|item| {
        let sold = match &item.article {
            Article::Known { price } => payment::Item::Known(price.clone()),
            Article::Priced {
                name,
                amount,
                currency,
                ..
            } => payment::Item::Priced {
                name: name.clone(),
                price: Money {
                    minor: *amount,
                    currency: *currency,
                },
            },
        };
        (sold, item.quantity)
    });
    sold.collect()
}

/// The provider has opened no page and will open none, so nobody can pay for the order.
async fn call_off(app: &App, checkout: &Checkout, refusal: Refusal) -> Result<(), Error> {
    let now = app.clock.now();
    let key = checkout_key(&checkout.pact_id);
    let mut tx = app.db.begin().await?;
    if !checkouts::refuse(&mut tx, checkout.id, refusal, now).await? {
        return Ok(tx.rollback().await?);
    }
    for (key, mut entry) in records::load(&mut tx, &[&key]).await? {
        entry.record.cancelled = Some(Cancellation {
            at: now.0,
            reason: Some(REFUSED.to_owned()),
        });
        let cancelled = OrderEvent::Cancelled {
            cancelled_at: now,
            reason: Some(REFUSED.to_owned()),
        };
        let cancelled = event(app, &mut entry.events_at, &key, cancelled, now);
        let moved = Moved {
            key: &key,
            state: entry.record.fulfillment_state(),
            to_provider: false,
            requested: None,
        };
        fulfillments::save(&mut tx, &[moved], now).await?;
        records::save(&mut tx, &[(&key, &entry)], now).await?;
        events::insert(&mut tx, &[cancelled], app.config.outlet(), now).await?;
    }
    Ok(tx.commit().await?)
}

/// An event of an order that follows from this request.
fn event(
    app: &App,
    last: &mut LastEvent,
    key: &OrderKey,
    what: OrderEvent,
    now: Timestamp,
) -> events::New {
    let (shop, order_id) = key;
    events::New {
        id: app.clock.id_at(last.next(now)),
        event: Event::of_order(shop, *order_id, what),
        traceparent: trace::current(),
    }
}

/// What is wrong with the amounts before anybody is asked. Each currency can be paid in.
fn unpayable(failure: &CallFailure) -> Error {
    match failure {
        CallFailure::UnsupportedCurrency(_) => {
            CheckoutError::from(CheckoutProblem::Currencies).into()
        }
        _ => CheckoutError::from(CheckoutProblem::Amount).into(),
    }
}

/// A provider that does not answer, or not as it should: logged here, once.
fn unavailable(failure: &CallFailure) -> Error {
    match failure {
        CallFailure::Paused(_) => tracing::debug!(error = %failure, "a checkout has to wait"),
        CallFailure::Misconfigured { .. } | CallFailure::Refused { .. } => {
            tracing::error!(error = %failure, "a checkout cannot be opened");
        }
        _ => tracing::warn!(error = %failure, "a checkout could not be opened"),
    }
    Error::ProviderTimeout(LEFT_ALONE)
}
