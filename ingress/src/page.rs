//! The public pages as HTML. This file decides what a page says, and the templates in
//! `ingress/templates/` decide how it looks.
//!
//! Pages load nothing but the shop's logo, and their only script turns times into those of the reader's place. A page is
//! written in the language that its reader prefers, else in that of the shop. The library askama compiles the templates and escapes
//! every value that they show. It was chosen because it is released regularly, and because its
//! templates are HTML with a widely known syntax.

use std::sync::LazyLock;

use askama::Template;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, VARY};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config::connection::Mailbox;
use domain::branding::{Branding, Language};
use domain::carrier;
use domain::due::{AmountDue, NothingDue};
use domain::money::Money;
use domain::order::outcome::ParcelState;
use domain::profile;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use store::public_orders::{self, Progress, PublicOrder};

use crate::error::Error;
use crate::openapi;
use crate::page::texts::{Texts, Updated};

pub mod texts;

pub const STYLE: &str = concat!(
    include_str!("../../common/server/src/base.css"),
    include_str!("../templates/page.css"),
);

/// Shows times as they are where the reader is.
pub const SCRIPT: &str = include_str!("../templates/page.js");

/// The content security policy of a page with this style. It allows only the page's own style, so that foreign text
/// that gets into a page has no effect.
pub fn policy(style: &str) -> HeaderValue {
    let policy = format!(
        "default-src 'none'; style-src {}; {NOTHING_ELSE}",
        hash(style)
    );
    HeaderValue::try_from(policy).expect("a policy is visible ASCII")
}

const NOTHING_ELSE: &str = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The hash by which a policy allows a style or a script.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// What the policies of buyers' pages begin with.
static OWN: LazyLock<String> = LazyLock::new(|| {
    let (style, script) = (hash(STYLE), hash(SCRIPT));
    format!("default-src 'none'; style-src {style}; script-src {script}; ")
});

/// A page for a buyer.
pub struct Page {
    html: String,
    language: &'static str,
    /// The origin from which it loads the shop's logo.
    logo: Option<String>,
}

impl Page {
    fn new(html: &impl Template, texts: &Texts, shop: Option<Shop<'_>>) -> Self {
        Page {
            html: html.to_string(),
            language: texts.tag(),
            logo: shop.and_then(|shop| shop.branding.logo_origin()),
        }
    }

    /// Its markup.
    pub fn html(&self) -> &str {
        &self.html
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let pictures = match &self.logo {
            Some(origin) => format!("img-src {origin}; "),
            None => String::new(),
        };
        let policy = HeaderValue::try_from(format!("{}{pictures}{NOTHING_ELSE}", *OWN));
        let policy = policy.expect("origins and policies are visible ASCII");
        let headers = [
            (CONTENT_SECURITY_POLICY, policy),
            (CONTENT_LANGUAGE, HeaderValue::from_static(self.language)),
            (VARY, HeaderValue::from_static("accept-language")),
        ];
        (headers, Html(self.html)).into_response()
    }
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
    /// How it presents itself.
    pub branding: &'a Branding,
}

/// The heading of an order's pages: its name and its shop.
struct Order<'a> {
    name: String,
    shop: Option<Shop<'a>>,
    texts: &'static Texts,
}

impl<'a> Order<'a> {
    fn new(order: &PublicOrder, shop: Option<Shop<'a>>, texts: &'static Texts) -> Self {
        Order {
            name: order.name.clone().unwrap_or_else(|| order.id.to_string()),
            shop,
            texts,
        }
    }
}

impl Shop<'_> {
    /// The shop as its buyers know it.
    fn name(&self) -> &str {
        let named = self.sender.and_then(|sender| sender.name.as_deref());
        let named = self.branding.display_name.as_deref().or(named);
        named
            .filter(|name| !name.trim().is_empty())
            .unwrap_or(self.domain)
    }

    /// Whom its buyers may ask.
    fn contact(&self) -> Option<Contact> {
        const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'@').remove(b'.').remove(b'-');
        let of_sender = || self.sender.map(|sender| sender.email.to_string());
        let address = self.branding.contact.clone().or_else(of_sender)?;
        Some(
            if address.starts_with("http://") || address.starts_with("https://") {
                Contact {
                    link: address,
                    address: None,
                }
            } else {
                Contact {
                    link: format!("mailto:{}", utf8_percent_encode(&address, ENCODED)),
                    address: Some(address),
                }
            },
        )
    }

    fn logo(&self) -> Option<&str> {
        self.branding.logo.as_deref()
    }
}

/// Whom buyers may ask.
struct Contact {
    link: String,
    /// The e-mail address, if it is one and not a page.
    address: Option<String>,
}

/// A parcel in a list of parcels.
struct Parcel<'a> {
    carrier: Option<&'a str>,
    /// The tracking number. `None` on the number's own page, where it is in the heading.
    number: Option<&'a str>,
    state: &'static str,
    /// It is not sent, or came back.
    has_ended: bool,
    link: Option<carrier::TrackingLink>,
}

impl<'a> Parcel<'a> {
    fn new(parcel: &'a public_orders::Parcel, texts: &Texts, is_cancelled: bool) -> Self {
        let (carrier, state) = (parcel.carrier.as_deref(), parcel.state);
        let is_sent = state != ParcelState::Cancelled;
        let link = is_sent.then(|| carrier::link(carrier.unwrap_or_default(), &parcel.number));
        Parcel {
            carrier,
            number: None,
            state: texts.parcel(state, is_cancelled),
            has_ended: matches!(state, ParcelState::Cancelled | ParcelState::Returned),
            link: link.flatten(),
        }
    }
}

#[derive(Template)]
#[template(path = "track.html")]
struct Track<'a> {
    texts: &'static Texts,
    order: Order<'a>,
    status: &'static str,
    sentence: &'static str,
    has_ended: bool,
    steps: Vec<Step>,
    payment: &'static str,
    parcels: Vec<Parcel<'a>>,
    /// The order is shipped, but no parcel is known, so the page says so.
    lacks_parcels: bool,
    updated: Option<Updated>,
    /// The QR code of this page, an SVG.
    code: Option<String>,
}

/// A step of an order, with its state in words.
struct Step {
    name: &'static str,
    class: &'static str,
    when: &'static str,
    is_current: bool,
}

/// The page of an order.
pub fn track<'a>(
    order: &'a PublicOrder,
    shop: Option<Shop<'a>>,
    texts: &'static Texts,
    code: Option<String>,
) -> Page {
    let parcels = &order.parcels;
    let progress = order.progress;
    let is_cancelled = progress == Progress::Cancelled;
    let times = parcels.iter().map(|parcel| parcel.updated_at);
    let numbered = |parcel: &'a public_orders::Parcel| Parcel {
        number: Some(&parcel.number),
        ..Parcel::new(parcel, texts, is_cancelled)
    };
    let page = Track {
        texts,
        order: Order::new(order, shop, texts),
        status: texts.progress(progress)[0],
        sentence: sentence(texts, progress, &order.shipments),
        has_ended: matches!(progress, Progress::Cancelled | Progress::NotShipping),
        steps: steps(texts, progress),
        payment: texts.payment(order.status.as_ref()),
        parcels: parcels.iter().map(numbered).collect(),
        lacks_parcels: progress == Progress::Shipped,
        updated: times
            .chain([order.updated_at])
            .max()
            .map(|at| texts.updated(at)),
        code,
    };
    Page::new(&page, texts, shop)
}

#[derive(Template)]
#[template(path = "tracking.html")]
struct Tracking<'a> {
    texts: &'static Texts,
    number: &'a str,
    parcels: Vec<Parcel<'a>>,
    updated: Option<Updated>,
    /// The QR code of this page, an SVG.
    code: Option<String>,
}

/// The page of a tracking number. It says nothing about the order, because carriers and everyone
/// who sees the parcel know its number.
pub fn tracking(
    number: &str,
    parcels: &[public_orders::Parcel],
    texts: &'static Texts,
    code: Option<String>,
) -> Page {
    let unnumbered = |parcel| Parcel::new(parcel, texts, false);
    let page = Tracking {
        texts,
        number,
        parcels: parcels.iter().map(unnumbered).collect(),
        updated: parcels
            .iter()
            .map(|parcel| parcel.updated_at)
            .max()
            .map(|at| texts.updated(at)),
        code,
    };
    Page::new(&page, texts, None)
}

#[derive(Template)]
#[template(path = "pay.html")]
struct Pay<'a> {
    texts: &'static Texts,
    order: Order<'a>,
    warning: Option<String>,
    amount_due: Option<String>,
    /// Why nothing is due. If both this and the amount are missing, the page advises the buyer to
    /// ask the shop.
    nothing_due: Option<&'static str>,
    payment: &'static str,
    status: &'static str,
    updated: Option<Updated>,
}

/// The page of a payment link. The amount is the order's own. The link's amount is shown only in a
/// warning.
pub fn pay(
    order: &PublicOrder,
    asked: Asked,
    shop: Option<Shop<'_>>,
    texts: &'static Texts,
) -> Page {
    let (amount_due, nothing_due) = match order.due {
        AmountDue::Amount(money) => (Some(texts.money(money)), None),
        AmountDue::Nothing(settled) => (None, Some(texts.nothing_due(settled))),
        AmountDue::AskShop => (None, None),
    };
    let page = Pay {
        texts,
        order: Order::new(order, shop, texts),
        warning: disagreement(texts, order.due, asked, order.total),
        amount_due,
        nothing_due,
        payment: texts.payment(order.status.as_ref()),
        status: texts.progress(order.progress)[0],
        updated: Some(texts.updated(order.updated_at)),
    };
    Page::new(&page, texts, shop)
}

#[derive(Template)]
#[template(path = "choose.html")]
struct Choose<'a> {
    texts: &'static Texts,
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
pub fn choose(id: i64, shops: &[String], asked: Asked, texts: &'static Texts) -> Page {
    let asks = match asked {
        Asked::Nothing => String::new(),
        Asked::Amount(money) => format!("&amount={money}&currency={}", money.currency),
        // The text is still not an amount, so the next page warns too.
        Asked::Garbled => "&amount=&currency=".to_owned(),
    };
    let shops = shops.iter().map(|shop| Choice {
        name: if shop.is_empty() {
            texts.choice.unnamed
        } else {
            shop
        },
        query: format!("{}{asks}", utf8_percent_encode(shop, NON_ALPHANUMERIC)),
    });
    let shops = shops.collect();
    Page::new(&Choose { texts, id, shops }, texts, None)
}

#[derive(Template)]
#[template(path = "refusal.html")]
struct Refusal {
    texts: &'static Texts,
    heading: &'static str,
    advice: &'static str,
}

/// The page that is shown in place of one that cannot be shown.
pub fn refusal(error: Error, texts: &'static Texts) -> Page {
    let [heading, advice] = texts.refusal(error);
    let page = Refusal {
        texts,
        heading,
        advice,
    };
    Page::new(&page, texts, None)
}

#[derive(Template)]
#[template(path = "front.html")]
struct Front {
    texts: &'static Texts,
    version: &'static str,
    parts: Vec<(&'static str, &'static str)>,
    providers: Vec<&'static str>,
}

/// The page of the service itself. It says the same wherever Waybill runs, so a stranger learns nothing
/// about the deployment: neither its settings nor its addresses, shops, workers or database. The version
/// is in the description of the API too.
pub fn front() -> Page {
    let page = Front {
        texts: Texts::of(Language::English),
        version: env!("CARGO_PKG_VERSION"),
        parts: openapi::parts().collect(),
        providers: profile::names(),
    };
    Page::new(&page, page.texts, None)
}

/// What a page says of an order, and of its shipments where they are further on.
fn sentence(texts: &'static Texts, progress: Progress, shipments: &[ParcelState]) -> &'static str {
    let all = &texts.progress;
    let is_on_its_way = |it: &ParcelState| {
        matches!(
            it,
            ParcelState::Shipped | ParcelState::OutForDelivery | ParcelState::Attempted
        )
    };
    let is_any_on_its_way = shipments.iter().any(is_on_its_way);
    let first = shipments.first().copied();
    let is_one = shipments.iter().all(|it| Some(*it) == first);
    match (progress, first.filter(|_| is_one)) {
        (Progress::Preparing, _) if is_any_on_its_way => all.partly_shipped,
        (Progress::Preparing, _) if shipments.iter().any(|it| *it > ParcelState::Announced) => {
            all.partly_sent
        }
        (Progress::Shipped, _) if is_any_on_its_way => all.shipped[1],
        (Progress::Shipped, Some(ParcelState::Announced)) => all.announced,
        (Progress::Shipped, Some(ParcelState::ReadyForPickup)) => all.ready_for_pickup,
        (Progress::Shipped, Some(ParcelState::Delivered)) => all.delivered,
        (Progress::Shipped, Some(ParcelState::NotDelivered)) => all.not_delivered,
        (Progress::Shipped, Some(ParcelState::Returned)) => all.returned,
        (Progress::Shipped, None) if first.is_some() => all.different,
        (progress, _) => texts.progress(progress)[1],
    }
}

/// The steps of an order. Each state is also given in words, for readers who do not see colours or
/// use a screen reader.
fn steps(texts: &'static Texts, now: Progress) -> Vec<Step> {
    let words = &texts.steps;
    let done = ("done", words.done);
    let current = ("now", words.now);
    let next = ("next", words.next);
    let usual = [Progress::Received, Progress::Preparing, Progress::Shipped];
    let marks = match now {
        Progress::Received => usual.into_iter().zip([current, next, next]).collect(),
        Progress::Preparing => usual.into_iter().zip([done, current, next]).collect(),
        Progress::Shipped => usual.into_iter().zip([done, done, done]).collect(),
        Progress::Cancelled | Progress::NotShipping => {
            vec![(Progress::Received, done), (now, ("ended", words.last))]
        }
    };
    let step = |(step, (class, when))| Step {
        name: texts.progress(step)[0],
        class,
        when,
        is_current: step == now,
    };
    marks.into_iter().map(step).collect()
}

/// What a link asks for that the order does not. A buyer who opens the link again after paying is not
/// warned of it.
fn disagreement(
    texts: &Texts,
    due: AmountDue,
    asked: Asked,
    total: Option<Money>,
) -> Option<String> {
    let is_paid = matches!(
        due,
        AmountDue::Nothing(NothingDue::Paid | NothingDue::Authorized)
    );
    let words = &texts.due;
    let asks = match asked {
        Asked::Nothing => return None,
        Asked::Amount(money) if due == AmountDue::Amount(money) => return None,
        Asked::Amount(money) if is_paid && total == Some(money) => return None,
        Asked::Amount(money) => words.link_asks.replace("{}", &texts.money(money)),
        Asked::Garbled => words.link_is_garbled.to_owned(),
    };
    let advice = match due {
        AmountDue::Amount(money) => words.pay_no_more.replace("{}", &texts.money(money)),
        AmountDue::Nothing(_) => words.do_not_pay.to_owned(),
        AmountDue::AskShop => words.ask_before.to_owned(),
    };
    Some(format!("{asks}; {advice}"))
}
