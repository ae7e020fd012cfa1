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
use domain::carrier;
use domain::due::{AmountDue, NothingDue};
use domain::money::Money;
use domain::order::FinancialStatus;
use domain::profile;
use domain::time::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use store::public_orders::{self, Progress, PublicOrder};

use crate::error::Error;
use crate::openapi;

pub const STYLE: &str = include_str!("../templates/page.css");

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

/// The heading of an order's pages: its name and its shop.
struct Order<'a> {
    name: String,
    shop: Option<&'a str>,
}

impl<'a> Order<'a> {
    fn new(order: &PublicOrder, shop: Option<&'a str>) -> Self {
        Order {
            name: order.name.clone().unwrap_or_else(|| order.id.to_string()),
            shop: shop.filter(|shop| !shop.is_empty()),
        }
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
pub fn track(order: &PublicOrder, parcels: &[public_orders::Parcel], shop: Option<&str>) -> String {
    let progress = order.progress;
    let times = parcels.iter().map(|parcel| parcel.updated_at);
    let page = Track {
        order: Order::new(order, shop),
        status: status(progress),
        sentence: sentence(progress, parcels.iter().any(|parcel| parcel.shipped)),
        has_ended: matches!(progress, Progress::Cancelled | Progress::NotShipping),
        steps: steps(progress),
        payment: payment(order.account.status.as_ref()),
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
pub fn pay(order: &PublicOrder, due: AmountDue, asked: Asked, shop: Option<&str>) -> String {
    let (amount_due, nothing_due) = match due {
        AmountDue::Amount(money) => (Some(amount(money)), None),
        AmountDue::Nothing(settled) => (None, Some(reason(settled))),
        AmountDue::AskShop => (None, None),
    };
    let page = Pay {
        order: Order::new(order, shop),
        warning: disagreement(due, asked, order.account.total),
        amount_due,
        nothing_due,
        payment: payment(order.account.status.as_ref()),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::due::Account;
    use domain::money::Currency;

    use super::*;

    /// A text with all characters that have a meaning in HTML.
    const HOSTILE: &str = "\"><script>alert('&')</script><img src=x onerror=\"a\">\u{0}\u{1b}";

    fn usd(minor: i64) -> Money {
        let currency = Currency::parse("USD").unwrap();
        Money { minor, currency }
    }

    fn order(name: &str, progress: Progress) -> PublicOrder {
        PublicOrder {
            shop: "shop.example".into(),
            id: 7,
            name: Some(name.into()),
            progress,
            account: Account {
                cancelled: false,
                withdrawn: false,
                stated: None,
                status: None,
                total: Some(usd(40_300)),
                outstanding: None,
                brought: Some(0),
            },
            updated_at: Timestamp(1_800_000_000_000),
        }
    }

    fn parcel(text: &str) -> public_orders::Parcel {
        public_orders::Parcel {
            number: text.into(),
            carrier: Some(text.into()),
            shipped: true,
            updated_at: Timestamp(1_800_000_060_000),
        }
    }

    /// The page without its style, in which the test looks for foreign elements and attributes.
    fn markup(page: &str) -> String {
        page.replace(STYLE, "")
    }

    #[test]
    fn hostile_text_stays_text_wherever_it_is_shown() {
        let order = order(HOSTILE, Progress::Shipped);
        let parcels = [parcel(HOSTILE)];
        let shops = [HOSTILE.to_owned()];
        let asked = Asked::Garbled;
        for page in [
            track(&order, &parcels, Some(HOSTILE)),
            tracking(HOSTILE, &parcels),
            pay(&order, order.account.due(), asked, Some(HOSTILE)),
            choose(7, &shops, asked),
        ] {
            let page = markup(&page);
            assert!(
                !page.contains("<script") && !page.contains("<img"),
                "{page}"
            );
            assert!(
                page.contains("&#60;script&#62;alert(&#39;&#38;&#39;)"),
                "{page}"
            );
            assert!(!page.contains(['\u{0}', '\u{1b}']));
            assert_eq!(page.matches('<').count(), page.matches('>').count());
        }
    }

    #[test]
    fn a_link_that_asks_for_what_is_due_is_not_warned_of() {
        let due = AmountDue::Amount(usd(40_300));
        let total = Some(usd(40_300));
        assert_eq!(disagreement(due, Asked::Nothing, total), None);
        assert_eq!(disagreement(due, Asked::Amount(usd(40_300)), total), None);
    }

    #[test]
    fn the_link_by_which_an_order_was_paid_is_not_warned_of_afterwards() {
        let asked = Asked::Amount(usd(40_300));
        let warns = |reason, total| {
            let due = AmountDue::Nothing(reason);
            disagreement(due, asked, total).is_some()
        };
        for paid in [NothingDue::Paid, NothingDue::Authorized] {
            assert!(!warns(paid, Some(usd(40_300))), "{paid:?}");
            assert!(warns(paid, Some(usd(40_200))), "{paid:?}");
            assert!(warns(paid, None), "{paid:?}");
        }
        for ended in [NothingDue::Cancelled, NothingDue::Refunded] {
            assert!(warns(ended, Some(usd(40_300))), "{ended:?}");
        }
    }

    #[test]
    fn a_link_that_asks_for_anything_else_is_warned_of() {
        let euro = Money {
            minor: 40_300,
            currency: Currency::parse("EUR").unwrap(),
        };
        let due = AmountDue::Amount(usd(40_300));
        for (due, asked, warning) in [
            (
                due,
                Asked::Amount(usd(50_000)),
                "The link you followed asks for 500.00 USD; the amount due for this order is \
                 403.00 USD. Pay no more than 403.00 USD.",
            ),
            (
                due,
                Asked::Amount(euro),
                "The link you followed asks for 403.00 EUR; the amount due for this order is \
                 403.00 USD. Pay no more than 403.00 USD.",
            ),
            (
                due,
                Asked::Garbled,
                "The link you followed asks for an amount that cannot be read; the amount due \
                 for this order is 403.00 USD. Pay no more than 403.00 USD.",
            ),
            (
                AmountDue::Nothing(NothingDue::Paid),
                Asked::Amount(usd(1)),
                "The link you followed asks for 0.01 USD; nothing is due for this order. Do not \
                 pay it.",
            ),
            (
                AmountDue::AskShop,
                Asked::Amount(usd(1)),
                "The link you followed asks for 0.01 USD; ask the shop before you pay anything.",
            ),
        ] {
            let total = Some(usd(40_300));
            assert_eq!(disagreement(due, asked, total).as_deref(), Some(warning));
        }
    }

    #[test]
    fn every_step_says_in_words_where_it_stands() {
        for (progress, marked) in [
            (
                Progress::Received,
                "Received Now, Preparing To come, Shipped To come",
            ),
            (
                Progress::Preparing,
                "Received Done, Preparing Now, Shipped To come",
            ),
            (
                Progress::Shipped,
                "Received Done, Preparing Done, Shipped Done",
            ),
            (Progress::Cancelled, "Received Done, Cancelled Final"),
            (
                Progress::NotShipping,
                "Received Done, Will not be shipped Final",
            ),
        ] {
            let page = track(&order("#1001", progress), &[], None);
            let (_, steps) = page.split_once("<ol").unwrap();
            let (steps, _) = steps.split_once("</ol>").unwrap();
            let steps: Vec<String> = steps.split("<li").skip(1).map(words).collect();
            assert_eq!(steps.join(", "), marked);
            assert_eq!(page.matches("aria-current=\"step\"").count(), 1);
        }
    }

    /// The text of an element, from a place within its first tag.
    fn words(element: &str) -> String {
        let mut inside = true;
        let text = element.chars().filter(|c| {
            inside = *c == '<' || (inside && *c != '>');
            !inside && *c != '>'
        });
        text.collect::<String>().trim().to_owned()
    }

    #[test]
    fn times_are_written_out_in_utc() {
        let mut order = order("#1001", Progress::Received);
        let page = track(&order, &[], None);
        let footer = "<footer>Updated <time datetime=\"2027-01-15T08:00:00.000Z\">15 January 2027, \
                      08:00 UTC</time></footer>";
        assert!(page.contains(footer), "{page}");
        order.updated_at = Timestamp(i64::MAX);
        assert!(track(&order, &[], None).contains("ms</time>"));
    }

    /// No template may mark a value as HTML that needs no escaping, or use a text of others as the
    /// target of a link.
    #[test]
    fn templates_let_only_our_style_in_as_it_is_and_only_our_links() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
        let mut raw = Vec::new();
        let mut links = BTreeSet::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let unescaped = ["safe", "escape", "{% filter"];
            let lines = text
                .lines()
                .filter(|line| line.contains("{{") || line.contains("{%"));
            let lines = lines.filter(|line| unescaped.iter().any(|word| line.contains(word)));
            raw.extend(lines.map(str::to_owned));
            for attribute in [" href=\"", " src=\"", " action=\"", " style=\""] {
                let values = text.split(attribute).skip(1);
                let values = values.map(|rest| rest.split('"').next().unwrap_or_default());
                links.extend(
                    values
                        .filter(|value| value.contains("{{"))
                        .map(str::to_owned),
                );
            }
        }
        raw.sort();
        assert_eq!(
            raw,
            [
                "<style>{{ crate::openapi::page::STYLE|safe }}</style>",
                "<style>{{ crate::page::STYLE|safe }}</style>",
            ]
        );
        let ours = [
            "#{{ article.id }}",
            "#{{ group.anchor }}",
            "#{{ scheme }}",
            "?shop={{ shop.query }}",
            "{{ link.url }}",
        ];
        assert_eq!(links, BTreeSet::from(ours.map(str::to_owned)));
    }

    #[test]
    fn the_style_can_stand_in_a_page_as_it_is() {
        assert!(!STYLE.contains("</") && !STYLE.contains("url(") && !STYLE.contains("@import"));
        assert!(STYLE.is_ascii() && !STYLE.contains('\r'));
    }

    /// The contrasts that WCAG 2.1 demands: 4.5 for text (1.4.3) and 3 for marks (1.4.11).
    #[test]
    fn colours_have_enough_contrast_in_light_and_in_dark() {
        let (light, dark) = STYLE
            .split_once("@media (prefers-color-scheme: dark)")
            .unwrap();
        for theme in [light, dark] {
            for (front, back, least) in [
                ("ink", "card", 4.5),
                ("ink", "ground", 4.5),
                ("quiet", "card", 4.5),
                ("accent", "card", 4.5),
                ("accent", "accent-ground", 4.5),
                ("on-accent", "accent", 4.5),
                ("ended", "card", 4.5),
                ("notice", "notice-ground", 4.5),
                ("notice-rule", "card", 3.0),
            ] {
                let ratio = contrast(colour(theme, front), colour(theme, back));
                assert!(ratio >= least, "--{front} on --{back}: {ratio:.2}");
            }
        }
    }

    fn colour(theme: &str, name: &str) -> f64 {
        let (_, rest) = theme.split_once(&format!("--{name}: #")).unwrap();
        let channel = |at: usize| {
            let part = f64::from(u8::from_str_radix(&rest[at..at + 2], 16).unwrap()) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
    }

    fn contrast(a: f64, b: f64) -> f64 {
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }
}
