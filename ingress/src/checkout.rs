//! A checkout through the API, in steps each of which may be repeated.
//!
//! 1. A caller who has used this idempotency key before continues where it stopped, at step 4.
//! 2. The prices of variants are asked of the storefront, never of the caller.
//! 3. One transaction stores the `checkouts` row and its pending order (`flows::checkout::begin`).
//!    Of two calls with one key only one inserts a row, and both continue with that row: with its
//!    items and its agreement.
//! 4. With no transaction open, the payment provider opens the page. The row's id is the
//!    idempotency key. So there is one page, however often the provider is asked and by whom. A
//!    provider may keep a failure under a key and repeat it ever after; then the next key counts.
//! 5. The answer is stored: the page, or the refusal, which cancels the order
//!    (`flows::checkout::refuse`).
//!
//! A page ends after a while. A caller who asks again after that goes through step 4 once more, for
//! the same order and at the same prices. The ended session is then part of the idempotency key,
//! so all who ask get the same new page. Nobody is sent to a page for an order that is paid or
//! cancelled.
//!
//! All of it runs in a task that no client cancels.

pub mod problem;
pub mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::checkout::{Article, Item};
use domain::connection::{DEFAULT, bare, of_id, qualified};
use domain::money::Money;
use domain::time::Timestamp;
use flows::outbox::Outbox;
use platform::crash_point::{self, Point};
use platform::trace;
use providers::payment::{self, CURRENCIES, CreatedSession, NewSession, Payment};
use providers::{CallFailure, storefront};
use store::checkouts::{self, Checkout, NewCheckout, Payability, PaymentPage, Refusal, State};
use store::orders::checkout_key;
use uuid::Uuid;

use self::problem::{CheckoutError, CheckoutProblem};
use self::request::{Wanted, Wish};
use crate::App;
use crate::error::Error;

/// How long the caller is told to wait while the provider does not answer.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// How long a request goes on to the next key where the provider repeats failures that it has
/// kept. A key that nobody has used takes a second, because only a repeated failure is known to be
/// kept; so this is some three new keys.
const NEXT_KEYS: Duration = Duration::from_secs(3);

/// How many keys a checkout has for one page.
const MOST_KEYS: u32 = 100;

/// Who asks, and the key by which the caller can ask again.
pub struct Caller {
    pub api_key_id: Uuid,
    pub idempotency_key: Option<String>,
}

/// A checkout whose page is open.
pub struct Opened {
    pub pact_id: String,
    pub order_id: i64,
    pub page: PaymentPage,
}

pub async fn open(app: &Arc<App>, caller: &Caller, wish: &Wish) -> Result<Opened, Error> {
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
    let payment = client(app, of_id(&checkout.pact_id))?;
    resume(app, &payment, checkout, wish).await
}

/// Whether the buyer may still be sent to pay.
async fn is_payable(app: &App, checkout: &Checkout) -> Result<(), Error> {
    let session_id = match &checkout.state {
        // Its order is cancelled because of the refusal, which is the answer.
        State::Refused(_) => return Ok(()),
        State::Pending => None,
        State::Open(page) => Some(page.session_id.as_str()),
    };
    match checkouts::payability(&app.db, checkout.order_id, session_id).await? {
        Payability::Payable => Ok(()),
        Payability::Paid => Err(Error::CheckoutPaid),
        Payability::Cancelled => Err(Error::CheckoutCancelled),
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
    let id = app.clock.id();
    // The connection whose payments pay for the shop's orders opens the page.
    let connections = app.connections.now();
    let connection = wish
        .shop
        .as_deref()
        .map(|shop| &connections.of_shop(shop).payments);
    let connection = connection.map_or(DEFAULT, String::as_str);
    client(app, connection)?;
    let pact_id = format!("pact_{}", id.simple());
    let pact_id = qualified(connection, &pact_id).into_owned();
    let items = price(app, wish).await?;
    let checked = session(&pact_id, &items, wish).check();
    checked.map_err(|failure| unpayable(&failure))?;
    let (_, order_id) = checkout_key(&pact_id);
    let new = NewCheckout {
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

/// The client of the payment provider of a connection.
fn client(app: &App, connection: &str) -> Result<Payment, Error> {
    let connections = app.connections.now();
    let client = connections
        .payment(connection)
        .and_then(|it| app.clients.payment_of(it));
    client.ok_or(Error::CheckoutNotSetUp)
}

fn json_of(wish: &Wish) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(wish).map_err(|_| Error::Internal)
}

/// All items that are wanted, at the prices of this moment.
async fn price(app: &App, wish: &Wish) -> Result<Vec<Item>, Error> {
    let ids = wish.items.iter().filter_map(|item| match item.what {
        request::Article::Variant(id) => Some(id),
        _ => None,
    });
    let ids: BTreeSet<i64> = ids.collect();
    let variants = if ids.is_empty() {
        BTreeMap::new()
    } else {
        let connections = app.connections.now();
        let connection = match wish.shop.as_deref() {
            Some(shop) => connections.of_shop(shop),
            None => connections.default_storefront(),
        };
        let storefront = app.clients.storefront(connection);
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

/// Step 3. Returns the checkout of whoever was first with this idempotency key.
async fn begin(app: &App, new: &NewCheckout<'_>) -> Result<Checkout, Error> {
    let mut outbox = Outbox::of_request(app.context(), trace::current());
    let mut tx = app.db.begin().await?;
    if !flows::checkout::begin(&mut outbox, &mut tx, new).await? {
        tx.rollback().await?;
        let idempotency_key = new.idempotency_key.ok_or(Error::Internal)?;
        let first = checkouts::find(&app.db, new.api_key_id, idempotency_key).await?;
        return first.ok_or(Error::Internal);
    }
    outbox.write(&mut tx).await?;
    tx.commit().await?;
    outbox.readable(&app.bus);
    Ok(Checkout {
        id: new.id,
        request_key: new.request_key,
        pact_id: new.pact_id.to_owned(),
        order_id: new.order_id,
        items: new.items.to_vec(),
        state: State::Pending,
    })
}

/// Steps 4 and 5, unless the answer is stored already.
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
        pact_id: bare(&checkout.pact_id).to_owned(),
        order_id: checkout.order_id,
        page,
    })
}

/// Asks for a page. `ended` is the page that it replaces, if there was one.
async fn ask(
    app: &App,
    payment: &Payment,
    checkout: &Checkout,
    wish: &Wish,
    ended: Option<&PaymentPage>,
) -> Result<PaymentPage, Error> {
    let wanted = session(&checkout.pact_id, &checkout.items, wish);
    let key = match ended {
        None => checkout.id.to_string(),
        Some(page) => format!(
            "{}-{}",
            checkout.id,
            app.keys.body(page.session_id.as_bytes())
        ),
    };
    crash_point::reach(Point::CheckoutAsk).await;
    let opened = under_any_key(app, payment, &wanted, &key).await;
    crash_point::reach(Point::CheckoutAsked).await;
    match opened {
        Ok(session) => {
            let page = PaymentPage {
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
            // Somebody may have paid on the page that has ended, and the event may still come.
            if ended.is_none() {
                refuse(app, checkout, refusal).await?;
            }
            Err(refusal.into())
        }
        Err(failure) => Err(unavailable(&failure)),
    }
}

/// Asks for a page under this key, or, where the provider repeats a failure that it has kept under a key, under the next
/// one. Every request begins with the first key and so comes to the same page, whoever else asks. A page that a kept
/// failure may have opened is shown to nobody.
async fn under_any_key(
    app: &App,
    payment: &Payment,
    wanted: &NewSession,
    key: &str,
) -> Result<CreatedSession, CallFailure> {
    let begun = app.clock.elapsed();
    let mut opened = payment.checkout(wanted, key).await;
    for number in 2..=MOST_KEYS {
        let is_kept = matches!(opened, Err(CallFailure::Stored { .. }));
        if !is_kept || app.clock.elapsed().saturating_sub(begun) > NEXT_KEYS {
            break;
        }
        opened = payment.checkout(wanted, &format!("{key}-{number}")).await;
    }
    opened
}

fn session(pact_id: &str, items: &[Item], wish: &Wish) -> NewSession {
    NewSession {
        items: sold(items),
        success_url: wish.success_url.clone(),
        cancel_url: wish.cancel_url.clone(),
        client_reference_id: wish.client_reference_id.clone(),
        pact_id: bare(pact_id).to_owned(),
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

/// Step 5, where the provider refuses: cancels the order, because nobody can pay for it.
async fn refuse(app: &App, checkout: &Checkout, refusal: Refusal) -> Result<(), Error> {
    let mut outbox = Outbox::of_request(app.context(), trace::current());
    let mut tx = app.db.begin().await?;
    if !flows::checkout::refuse(&mut outbox, &mut tx, checkout, refusal).await? {
        return Ok(tx.rollback().await?);
    }
    outbox.write(&mut tx).await?;
    tx.commit().await?;
    outbox.readable(&app.bus);
    Ok(())
}

/// The error of amounts that cannot be paid, found before a provider is asked. Each of the
/// currencies can be paid in, so a failure about the currency means that they are several.
fn unpayable(failure: &CallFailure) -> Error {
    match failure {
        CallFailure::UnsupportedCurrency(_) => {
            CheckoutError::from(CheckoutProblem::Currencies).into()
        }
        _ => CheckoutError::from(CheckoutProblem::Amount).into(),
    }
}

/// The error of a provider that does not answer, or not as it should. It is logged here, once.
fn unavailable(failure: &CallFailure) -> Error {
    match failure {
        CallFailure::Paused(_) => tracing::debug!(error = %failure, "a checkout has to wait"),
        CallFailure::WrongAddress { .. } => {
            tracing::error!(error = %failure, "a checkout cannot be opened");
            return Error::CheckoutAddress;
        }
        CallFailure::Misconfigured { .. } | CallFailure::Refused { .. } => {
            tracing::error!(error = %failure, "a checkout cannot be opened");
        }
        _ => tracing::warn!(error = %failure, "a checkout could not be opened"),
    }
    Error::ProviderTimeout(LEFT_ALONE)
}
