//! The public pages as HTML. This file decides what a page says, and the templates in
//! `ingress/templates/` decide how it looks.
//!
//! Pages have no script and load nothing. The library askama compiles the templates and escapes
//! every value that they show. It was chosen because it is released regularly, and because its
//! templates are HTML with a widely known syntax.

use std::sync::LazyLock;

use askama::Template;
use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config::connection::Mailbox;
use domain::carrier;
use domain::due::{AmountDue, NothingDue};
use domain::money::Money;
use domain::order::FinancialStatus;
use domain::profile;
use domain::time::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use store::public_orders::{self, Progress, PublicOrder};

use crate::error::Error;
use crate::openapi;

pub const STYLE: &str = concat!(
    include_str!("../../common/server/src/base.css"),
    include_str!("../templates/page.css"),
);

/// The content security policy. It allows only the page's own style, so that foreign text that
/// gets into a page has no effect.
pub static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| policy(STYLE));

/// The policy of a page with this style.
pub fn policy(style: &str) -> HeaderValue {
    let hash = STANDARD.encode(Sha256::digest(style));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("a policy is visible ASCII")
}

/// The amount that the link to a payment page asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The link names no amount.
    Nothing,
    Amount(Money),
    /// The link names a text that is not an amount of money.
    Garbled,
}

/// The shop that a page may name.
#[derive(Clone, Copy)]
pub struct Shop<'a> {
    pub domain: &'a str,
    /// Who writes to its buyers, as its connection says.
    pub sender: Option<&'a Mailbox>,
}

/// The heading of an order's pages: its name and its shop.
struct Order<'a> {
    name: String,
    shop: Option<Shop<'a>>,
}

impl<'a> Order<'a> {
    fn new(order: &PublicOrder, shop: Option<Shop<'a>>) -> Self {
        Order {
            name: order.name.clone().unwrap_or_else(|| order.id.to_string()),
            shop: shop.filter(|shop| !shop.domain.is_empty()),
        }
    }
}

impl Shop<'_> {
    /// The shop as its buyers know it.
    fn name(&self) -> &str {
        let named = self.sender.and_then(|sender| sender.name.as_deref());
        named
            .filter(|name| !name.trim().is_empty())
            .unwrap_or(self.domain)
    }

    /// Whom its buyers may ask, and a link that begins a mail.
    fn contact(&self) -> Option<(String, String)> {
        const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'@').remove(b'.').remove(b'-');
        let address = self.sender?.email.to_string();
        let link = format!("mailto:{}", utf8_percent_encode(&address, ENCODED));
        Some((address, link))
    }
}

/// A parcel in a list of parcels.
struct Parcel<'a> {
    carrier: Option<&'a str>,
    /// The tracking number. `None` on the number's own page, where it is in the heading.
    number: Option<&'a str>,
    is_shipped: bool,
    link: Option<carrier::TrackingLink>,
}

impl<'a> Parcel<'a> {
    fn unnumbered(parcel: &'a public_orders::Parcel) -> Self {
        let carrier = parcel.carrier.as_deref();
        Parcel {
            carrier,
            number: None,
            is_shipped: parcel.shipped,
            link: carrier::link(carrier.unwrap_or_default(), &parcel.number),
        }
    }

    fn numbered(parcel: &'a public_orders::Parcel) -> Self {
        Parcel {
            number: Some(&parcel.number),
            ..Parcel::unnumbered(parcel)
        }
    }
}

#[derive(Template)]
#[template(path = "track.html")]
struct Track<'a> {
    order: Order<'a>,
    status: &'static str,
    sentence: &'static str,
    has_ended: bool,
    steps: Vec<Step>,
    payment: &'static str,
    parcels: Vec<Parcel<'a>>,
    /// The order is shipped, but no parcel is known, so the page says so.
    lacks_parcels: bool,
    updated: Option<Timestamp>,
}

/// A step of an order, with its state in words.
struct Step {
    name: &'static str,
    class: &'static str,
    when: &'static str,
    is_current: bool,
}

/// The page of an order.
pub fn track(order: &PublicOrder, shop: Option<Shop<'_>>) -> String {
    let parcels = &order.parcels;
    let progress = order.progress;
    let times = parcels.iter().map(|parcel| parcel.updated_at);
    let page = Track {
        order: Order::new(order, shop),
        status: status(progress),
        sentence: sentence(progress, parcels.iter().any(|parcel| parcel.shipped)),
        has_ended: matches!(progress, Progress::Cancelled | Progress::NotShipping),
        steps: steps(progress),
        payment: payment(order.status.as_ref()),
        parcels: parcels.iter().map(Parcel::numbered).collect(),
        lacks_parcels: progress == Progress::Shipped,
        updated: times.chain([order.updated_at]).max(),
    };
    page.to_string()
}

#[derive(Template)]
#[template(path = "tracking.html")]
struct Tracking<'a> {
    number: &'a str,
    parcels: Vec<Parcel<'a>>,
    updated: Option<Timestamp>,
}

/// The page of a tracking number. It says nothing about the order, because carriers and everyone
/// who sees the parcel know its number.
pub fn tracking(number: &str, parcels: &[public_orders::Parcel]) -> String {
    let page = Tracking {
        number,
        parcels: parcels.iter().map(Parcel::unnumbered).collect(),
        updated: parcels.iter().map(|parcel| parcel.updated_at).max(),
    };
    page.to_string()
}

#[derive(Template)]
#[template(path = "pay.html")]
struct Pay<'a> {
    order: Order<'a>,
    warning: Option<String>,
    amount_due: Option<String>,
    /// Why nothing is due. If both this and the amount are missing, the page advises the buyer to
    /// ask the shop.
    nothing_due: Option<&'static str>,
    payment: &'static str,
    status: &'static str,
    updated: Option<Timestamp>,
}

/// The page of a payment link. The amount is the order's own. The link's amount is shown only in a
/// warning.
pub fn pay(order: &PublicOrder, asked: Asked, shop: Option<Shop<'_>>) -> String {
    let (amount_due, nothing_due) = match order.due {
        AmountDue::Amount(money) => (Some(amount(money)), None),
        AmountDue::Nothing(settled) => (None, Some(reason(settled))),
        AmountDue::AskShop => (None, None),
    };
    let page = Pay {
        order: Order::new(order, shop),
        warning: disagreement(order.due, asked, order.total),
        amount_due,
        nothing_due,
        payment: payment(order.status.as_ref()),
        status: status(order.progress),
        updated: Some(order.updated_at),
    };
    page.to_string()
}

#[derive(Template)]
#[template(path = "choose.html")]
struct Choose<'a> {
    id: i64,
    shops: Vec<Choice<'a>>,
}

struct Choice<'a> {
    name: &'a str,
    /// The rest of the link's query, after `?shop=`.
    query: String,
}

/// The page with a link to each shop that has an order with this id. These links keep the amount
/// for which this link asked.
pub fn choose(id: i64, shops: &[String], asked: Asked) -> String {
    let asks = match asked {
        Asked::Nothing => String::new(),
        Asked::Amount(money) => format!("&amount={money}&currency={}", money.currency),
        // The text is still not an amount, so the next page warns too.
        Asked::Garbled => "&amount=&currency=".to_owned(),
    };
    let shops = shops.iter().map(|shop| Choice {
        name: if shop.is_empty() {
            "A shop without a name"
        } else {
            shop
        },
        query: format!("{}{asks}", utf8_percent_encode(shop, NON_ALPHANUMERIC)),
    });
    let shops = shops.collect();
    Choose { id, shops }.to_string()
}

#[derive(Template)]
#[template(path = "refusal.html")]
struct Refusal {
    heading: &'static str,
    advice: &'static str,
}

/// The page that is shown in place of one that cannot be shown.
pub fn refusal(error: Error) -> String {
    let (heading, advice) = match error {
        Error::OrderNotFound => (
            "Order not found",
            "There is no order with this number. A new order may take a minute to appear. If \
             you still see this then, ask the shop for the right link.",
        ),
        Error::ParcelNotFound => (
            "Parcel not found",
            "No parcel with this tracking number is known here. It may not have been handed \
             over yet, or not be on its way any more.",
        ),
        Error::ShopQuery => (
            "This link is not complete",
            "Scan the code again, or open the link as it was sent to you.",
        ),
        Error::RateLimited(_) => (
            "Too many requests",
            "Many pages were opened from your network. Wait a moment, then load this page again.",
        ),
        Error::Unavailable | Error::NotServed => (
            "Please try again in a moment",
            "The order cannot be looked up right now. Nothing is wrong with your link.",
        ),
        _ => (
            "Something went wrong",
            "This page cannot be shown. Please try again later.",
        ),
    };
    Refusal { heading, advice }.to_string()
}

#[derive(Template)]
#[template(path = "front.html")]
struct Front {
    version: &'static str,
    parts: Vec<(&'static str, &'static str)>,
    providers: Vec<&'static str>,
}

/// The page of the service itself. It says the same wherever Waybill runs, so a stranger learns nothing
/// about the deployment: neither its settings nor its addresses, shops, workers or database. The version
/// is in the description of the API too.
pub fn front() -> String {
    let page = Front {
        version: env!("CARGO_PKG_VERSION"),
        parts: openapi::parts().collect(),
        providers: profile::names(),
    };
    page.to_string()
}

fn status(progress: Progress) -> &'static str {
    match progress {
        Progress::Received => "Received",
        Progress::Preparing => "Preparing",
        Progress::Shipped => "Shipped",
        Progress::Cancelled => "Cancelled",
        Progress::NotShipping => "Will not be shipped",
    }
}

fn sentence(progress: Progress, is_on_its_way: bool) -> &'static str {
    match progress {
        Progress::Received => "The shop has your order.",
        Progress::Preparing if is_on_its_way => {
            "Part of your order is on its way. The shop is getting the rest ready."
        }
        Progress::Preparing => "The shop is getting your order ready.",
        Progress::Shipped => "Your order is on its way.",
        Progress::Cancelled => "This order was cancelled.",
        Progress::NotShipping => {
            "The shop will not ship this order. Ask the shop if you did not expect that."
        }
    }
}

/// The steps of an order. Each state is also given in words, for readers who do not see colours or
/// use a screen reader.
fn steps(now: Progress) -> Vec<Step> {
    const DONE: (&str, &str) = ("done", "Done");
    const NOW: (&str, &str) = ("now", "Now");
    const NEXT: (&str, &str) = ("next", "To come");
    const ENDED: (&str, &str) = ("ended", "Final");
    let usual = [Progress::Received, Progress::Preparing, Progress::Shipped];
    let marks = match now {
        Progress::Received => usual.into_iter().zip([NOW, NEXT, NEXT]).collect(),
        Progress::Preparing => usual.into_iter().zip([DONE, NOW, NEXT]).collect(),
        Progress::Shipped => usual.into_iter().zip([DONE, DONE, DONE]).collect(),
        Progress::Cancelled | Progress::NotShipping => {
            vec![(Progress::Received, DONE), (now, ENDED)]
        }
    };
    let step = |(step, (class, when))| Step {
        name: status(step),
        class,
        when,
        is_current: step == now,
    };
    marks.into_iter().map(step).collect()
}

fn payment(status: Option<&FinancialStatus>) -> &'static str {
    match status {
        Some(FinancialStatus::Pending) => "Not paid yet",
        Some(FinancialStatus::Authorized) => "Authorized",
        Some(FinancialStatus::PartiallyPaid) => "Partly paid",
        Some(FinancialStatus::Paid) => "Paid",
        Some(FinancialStatus::PartiallyRefunded) => "Partly refunded",
        Some(FinancialStatus::Refunded) => "Refunded",
        Some(FinancialStatus::Voided) => "Called off",
        Some(FinancialStatus::Expired) => "Not paid in time",
        Some(FinancialStatus::Other(_)) | None => "Not known",
    }
}

fn reason(settled: NothingDue) -> &'static str {
    match settled {
        NothingDue::Cancelled => "This order was cancelled, so nothing is due for it.",
        NothingDue::Paid => "This order has been paid. Thank you.",
        NothingDue::PartiallyRefunded => {
            "This order was paid, and part of the money was given back. Nothing is due for it."
        }
        NothingDue::Refunded => "The money for this order was given back. Nothing is due for it.",
        NothingDue::Voided => {
            "The payment for this order was called off, so nothing is due for it."
        }
        NothingDue::Authorized => {
            "The payment is authorized: the money is set aside, and the shop will collect it. \
             There is nothing more for you to do."
        }
        NothingDue::Zero => "Nothing is left to pay for this order.",
    }
}

/// What a link asks for that the order does not. A buyer who opens the link again after paying is not
/// warned of it.
fn disagreement(due: AmountDue, asked: Asked, total: Option<Money>) -> Option<String> {
    let is_paid = matches!(
        due,
        AmountDue::Nothing(NothingDue::Paid | NothingDue::Authorized)
    );
    let asks = match asked {
        Asked::Nothing => return None,
        Asked::Amount(money) if due == AmountDue::Amount(money) => return None,
        Asked::Amount(money) if is_paid && total == Some(money) => return None,
        Asked::Amount(money) => format!("The link you followed asks for {}", amount(money)),
        Asked::Garbled => "The link you followed asks for an amount that cannot be read".to_owned(),
    };
    Some(match due {
        AmountDue::Amount(money) => {
            let due = amount(money);
            format!("{asks}; the amount due for this order is {due}. Pay no more than {due}.")
        }
        AmountDue::Nothing(_) => format!("{asks}; nothing is due for this order. Do not pay it."),
        AmountDue::AskShop => format!("{asks}; ask the shop before you pay anything."),
    })
}

fn amount(money: Money) -> String {
    format!("{money} {}", money.currency)
}
