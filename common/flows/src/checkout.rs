//! The order of a checkout that was asked for through the API: it is made together with the
//! checkout, and cancelled if the payment provider refuses the checkout.
//!
//! The order has the key that a checkout session of its agreement makes (`orders::checkout_key`).
//! So the events of the session that the provider opens are merged with this order.

use domain::checkout;
use domain::connection::{bare, of_id};
use store::checkouts::{self, Checkout, NewCheckout, Refusal};
use store::orders::checkout_key;
use store::sql::Tx;

use crate::Result;
use crate::orders;
use crate::outbox::Outbox;

/// Why an order is cancelled whose checkout the provider has refused.
const REFUSED: &str = "checkout_refused";

/// Stores a checkout and its order, which nobody has paid for yet. Returns false, and writes
/// nothing, if a checkout has this idempotency key already.
pub async fn begin(outbox: &mut Outbox<'_>, tx: &mut Tx, new: &NewCheckout<'_>) -> Result<bool> {
    if !checkouts::insert(tx, new, outbox.now).await? {
        return Ok(false);
    }
    let key = checkout_key(new.pact_id);
    let agreement = bare(new.pact_id);
    let mut record = checkout::order(new.items, agreement, outbox.now.0);
    record.paid_by(of_id(new.pact_id), agreement);
    orders::insert_of_checkout(outbox, tx, key, record).await?;
    Ok(true)
}

/// Records that the provider refuses a checkout, and cancels its order: the provider has opened no
/// page and will open none, so nobody can pay. Returns false, and writes nothing, if the checkout
/// has another answer already.
pub async fn refuse(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    checkout: &Checkout,
    refusal: Refusal,
) -> Result<bool> {
    if !checkouts::refuse(tx, checkout.id, refusal, outbox.now).await? {
        return Ok(false);
    }
    orders::call_off(outbox, tx, &checkout_key(&checkout.pact_id), REFUSED).await?;
    Ok(true)
}
