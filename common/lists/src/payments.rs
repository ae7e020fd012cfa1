//! Lists of payments, subscriptions and notifications.

use domain::money::decimal;
use serde::Serialize;
use store::notifications;
use store::payments;
use store::sql::Db;
use store::subscriptions;

use crate::shown::{self, Cell};
use crate::{Any, Column, Error, Extent, List, Page, Wanted, column, lesser, sentence, words};

#[derive(Clone, Copy, Debug, Default)]
pub struct Payments;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct PaymentFilter {
    /// Only payments in this state: succeeded, partially_refunded, refunded, canceled, ..
    #[arg(long, value_parser = words::payment_state(), hide_possible_values = true)]
    pub state: Option<String>,
    /// Only payments of this agreement (metadata.pact_id)
    #[arg(long)]
    pub pact: Option<String>,
}

/// A payment with its amounts as decimals.
#[derive(Clone, Debug, Serialize)]
pub struct Payment {
    #[serde(flatten)]
    pub summary: payments::Summary,
    pub amount: String,
    pub received: String,
    pub refunded: String,
}

impl From<payments::Summary> for Payment {
    fn from(summary: payments::Summary) -> Self {
        let amount = |minor| decimal(minor, &summary.currency);
        Payment {
            amount: amount(summary.amount_minor),
            received: amount(summary.received_minor),
            refunded: amount(summary.refunded_minor),
            summary,
        }
    }
}

impl List for Payments {
    type Filter = PaymentFilter;
    type Row = Payment;

    const PAGE: &'static str = "/payments";
    const COMMAND: &'static str = "payments list";
    const TITLE: &'static str = "Payments";
    const ABOUT: &'static str = "Those that changed last come first.";
    const EMPTY: &'static str = "No payments.";
    const EXTENT: Extent = Extent::First(500);
    const COLUMNS: &'static [Column<Payment>] = &[
        column("Changed", |it| Cell::time(it.summary.updated_at)),
        column("State", |it| shown::state(it.summary.state.as_str())),
        lesser("Amount", |it| Cell::amount(it.amount.as_str())),
        column("Received", |it| Cell::amount(it.received.as_str())),
        column("Refunded", |it| Cell::amount(it.refunded.as_str())),
        column("Currency", |it| Cell::text(it.summary.currency.as_str())),
        column("Agreement", |it| Cell::maybe(it.summary.pact_id.as_deref())),
        column("Payment", |it| {
            let id = it.summary.id.as_str();
            Cell::link(id, shown::payment(id))
        }),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &PaymentFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<Payment>, Error> {
        let filter = payments::Filter {
            state: filter.state.clone().unwrap_or_default(),
            pact_id: filter.pact.clone().unwrap_or_default(),
        };
        let payments = payments::list(db, &filter, wanted.rows()).await?;
        Ok(Page::first(
            payments.into_iter().map(Payment::from).collect(),
            wanted,
        ))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Subscriptions;

impl List for Subscriptions {
    type Filter = Any;
    type Row = subscriptions::Summary;

    const PAGE: &'static str = "/subscriptions";
    const COMMAND: &'static str = "payments subscriptions";
    const TITLE: &'static str = "Subscriptions";
    const ABOUT: &'static str = "Those that changed last come first.";
    const EMPTY: &'static str = "No subscriptions.";
    const EXTENT: Extent = Extent::First(500);
    const COLUMNS: &'static [Column<subscriptions::Summary>] = &[
        lesser("Changed", |it| Cell::time(it.updated_at)),
        column("Paid until", |it| Cell::maybe_time(it.period_end_at)),
        column("Customer", |it| Cell::maybe(it.customer_id.as_deref())),
        column("Agreement", |it| Cell::maybe(it.pact_id.as_deref())),
        column("Subscription", |it| {
            Cell::link(it.id.as_str(), shown::subscription(&it.id))
        }),
    ];

    async fn page(
        &self,
        db: &Db,
        _: &Any,
        wanted: Wanted<'_>,
    ) -> Result<Page<subscriptions::Summary>, Error> {
        let found = subscriptions::list(db, wanted.rows()).await?;
        Ok(Page::first(found, wanted))
    }
}

/// Notifications of customers, without their names and addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notifications;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct NotificationFilter {
    /// Only notifications about this payment
    #[arg(long, value_name = "ID")]
    pub payment: Option<String>,
}

impl List for Notifications {
    type Filter = NotificationFilter;
    type Row = notifications::Summary;

    const PAGE: &'static str = "/notifications";
    const COMMAND: &'static str = "notifications list";
    const TITLE: &'static str = "Notifications";
    const ABOUT: &'static str =
        "What customers were written, the newest first, without their names and addresses.";
    const EMPTY: &'static str = "No notifications.";
    const EXTENT: Extent = Extent::First(500);
    const COLUMNS: &'static [Column<notifications::Summary>] = &[
        column("Written", |it| Cell::time(it.created_at)),
        column("Kind", |it| Cell::text(it.kind.as_str())),
        column("Payment", |it| {
            Cell::link(it.payment_id.as_str(), shown::payment(&it.payment_id))
        }),
        column("State", |it| shown::state(it.state.as_str())),
        column("Notification", |it| Cell::code(it.id.to_string())),
        sentence("Why", |it| Cell::maybe(it.error.as_deref())),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &NotificationFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<notifications::Summary>, Error> {
        let payment = filter.payment.as_deref().unwrap_or_default();
        let found = notifications::list(db, payment, wanted.rows()).await?;
        Ok(Page::first(found, wanted))
    }
}
