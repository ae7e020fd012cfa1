//! The public pages as HTML: pure, from what is known to text. Pages have no script and
//! load nothing. Text gets into one through [`Text`] alone, which escapes it.

use std::fmt::{self, Write};
use std::sync::LazyLock;

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::carrier;
use domain::due::{Due, Settled};
use domain::money::Money;
use domain::order::FinancialStatus;
use domain::time::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use store::public_orders::{Parcel, Progress, PublicOrder};

use crate::error::Error;

const STYLE: &str = include_str!("page.css");

/// Nothing but the one style of our own may take effect on a page, whatever gets into it.
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

/// What the link to a payment page asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The link names no amount.
    Nothing,
    Amount(Money),
    /// The link names something that is no amount of money.
    Garbled,
}

/// The page of an order. `shop` is shown when the link named it: who only guesses an id
/// does not learn whose order it is.
pub fn track(order: &PublicOrder, parcels: &[Parcel], shop: Option<&str>) -> String {
    let mut body = heading(order, shop);
    body += &status(order.progress, parcels);
    body += &steps(order.progress);
    let payment = Text(payment(order.account.status.as_ref()));
    let _ = write!(
        body,
        r#"<dl class="part facts"><div><dt>Payment</dt><dd>{payment}</dd></div></dl>"#
    );
    if !parcels.is_empty() {
        let heading = if parcels.len() == 1 {
            "Parcel"
        } else {
            "Parcels"
        };
        let _ = write!(
            body,
            r#"<section class="part"><h2>{heading}</h2>{}</section>"#,
            list(parcels, true)
        );
    } else if order.progress == Progress::Shipped {
        body += r#"<p class="part">The shop has given no tracking number for this order.</p>"#;
    }
    let told = parcels.iter().map(|parcel| parcel.updated_at);
    body += &updated(told.chain([order.updated_at]).max());
    layout(&title(order), &body)
}

/// The page of a tracking number. It tells nothing of the order: carriers and everyone who
/// sees a parcel know its number.
pub fn tracking(number: &str, parcels: &[Parcel]) -> String {
    let number = Text(number);
    let mut body = format!(r#"<h1>Parcel <bdi class="number">{number}</bdi></h1>"#);
    if parcels.len() > 1 {
        body += "<p>Several parcels have this number. One of these is yours.</p>";
    }
    let _ = write!(
        body,
        r#"<section class="part">{}</section>"#,
        list(parcels, false)
    );
    body += &updated(parcels.iter().map(|parcel| parcel.updated_at).max());
    layout(&format!("Parcel {number}"), &body)
}

/// The page of a payment link. The amount is the order's own; the link's is shown only to
/// warn of it.
pub fn pay(order: &PublicOrder, due: Due, asked: Asked, shop: Option<&str>) -> String {
    let mut body = heading(order, shop);
    if let Some(warning) = disagreement(due, asked) {
        let _ = write!(
            body,
            r#"<p class="notice" role="note"><strong>Check the amount</strong> {}</p>"#,
            Text(&warning)
        );
    }
    body += r#"<section class="part">"#;
    match due {
        Due::Amount(money) => {
            let _ = write!(
                body,
                r#"<dl class="facts"><div><dt>Amount due</dt><dd class="amount">{}</dd></div></dl>
<p>Pay through the shop’s own checkout: there is no payment on this page. The shop’s order confirmation leads there.</p>"#,
                Text(&amount(money))
            );
        }
        Due::Nothing(settled) => {
            let _ = write!(
                body,
                "<h2>Nothing to pay</h2><p>{}</p>",
                Text(reason(settled))
            );
        }
        Due::AskShop => {
            body += "<h2>Ask the shop before you pay</h2><p>How much is due for this order, if \
                     anything, is not known here. The shop can tell you.</p>";
        }
    }
    body += "</section>";
    let payment = Text(payment(order.account.status.as_ref()));
    let _ = write!(
        body,
        r#"<dl class="part facts"><div><dt>Payment</dt><dd>{payment}</dd></div><div><dt>Order</dt><dd>{}</dd></div></dl>"#,
        Text(progress(order.progress))
    );
    body += &updated(Some(order.updated_at));
    layout(&format!("Payment, {}", title(order)), &body)
}

/// Several shops have an order with this id. The links keep what the link to here asked for.
pub fn choose(id: i64, shops: &[String], asked: Asked) -> String {
    let mut body = format!(
        r#"<h1>Which shop is it from?</h1><p class="status">Order {id}</p><p>Several shops have an order with this number. Choose yours.</p><nav class="part"><ul class="parcels">"#
    );
    let asks = match asked {
        Asked::Nothing => String::new(),
        Asked::Amount(money) => format!("&amount={money}&currency={}", money.currency),
        // Still no amount, so that the next page warns too.
        Asked::Garbled => "&amount=&currency=".to_owned(),
    };
    for shop in shops {
        let link = format!(
            "?shop={}{asks}",
            utf8_percent_encode(shop, NON_ALPHANUMERIC)
        );
        let name = if shop.is_empty() {
            "A shop without a name"
        } else {
            shop
        };
        let _ = write!(
            body,
            r#"<li><a class="go" rel="nofollow" href="{}"><bdi>{}</bdi></a></li>"#,
            Text(&link),
            Text(name)
        );
    }
    body += "</ul></nav>";
    layout("Which shop is it from?", &body)
}

/// The page in place of one that cannot be shown.
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
        Error::Unavailable => (
            "Please try again in a moment",
            "The order cannot be looked up right now. Nothing is wrong with your link.",
        ),
        _ => (
            "Something went wrong",
            "This page cannot be shown. Please try again later.",
        ),
    };
    let body = format!("<h1>{}</h1><p>{}</p>", Text(heading), Text(advice));
    layout(heading, &body)
}

/// `title` is escaped already.
fn layout(title: &str, body: &str) -> String {
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="color-scheme" content="light dark">
<meta name="format-detection" content="telephone=no">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"#
    )
}

fn title(order: &PublicOrder) -> String {
    format!("Order {}", Text(&name(order)))
}

fn name(order: &PublicOrder) -> String {
    order.name.clone().unwrap_or_else(|| order.id.to_string())
}

fn heading(order: &PublicOrder, shop: Option<&str>) -> String {
    let mut heading = format!("<h1>Order <bdi>{}</bdi></h1>", Text(&name(order)));
    if let Some(shop) = shop.filter(|shop| !shop.is_empty()) {
        let _ = write!(heading, r#"<p class="shop"><bdi>{}</bdi></p>"#, Text(shop));
    }
    heading
}

fn progress(progress: Progress) -> &'static str {
    match progress {
        Progress::Received => "Received",
        Progress::Preparing => "Preparing",
        Progress::Shipped => "Shipped",
        Progress::Cancelled => "Cancelled",
        Progress::NotShipping => "Will not be shipped",
    }
}

fn status(now: Progress, parcels: &[Parcel]) -> String {
    let is_on_its_way = parcels.iter().any(|parcel| parcel.shipped);
    let (class, sentence) = match now {
        Progress::Received => ("status", "The shop has your order."),
        Progress::Preparing if is_on_its_way => (
            "status",
            "Part of your order is on its way. The shop is getting the rest ready.",
        ),
        Progress::Preparing => ("status", "The shop is getting your order ready."),
        Progress::Shipped => ("status", "Your order is on its way."),
        Progress::Cancelled => ("status ended", "This order was cancelled."),
        Progress::NotShipping => (
            "status ended",
            "The shop will not ship this order. Ask the shop if you did not expect that.",
        ),
    };
    format!(
        r#"<p class="{class}">{}</p><p>{}</p>"#,
        Text(progress(now)),
        Text(sentence)
    )
}

/// The way of an order; each step says in words where it stands.
fn steps(now: Progress) -> String {
    let steps: &[(Progress, &str, &str)] = match now {
        Progress::Received => &[
            (Progress::Received, "now", "Now"),
            (Progress::Preparing, "next", "To come"),
            (Progress::Shipped, "next", "To come"),
        ],
        Progress::Preparing => &[
            (Progress::Received, "done", "Done"),
            (Progress::Preparing, "now", "Now"),
            (Progress::Shipped, "next", "To come"),
        ],
        Progress::Shipped => &[
            (Progress::Received, "done", "Done"),
            (Progress::Preparing, "done", "Done"),
            (Progress::Shipped, "done", "Done"),
        ],
        ended @ (Progress::Cancelled | Progress::NotShipping) => &[
            (Progress::Received, "done", "Done"),
            (ended, "ended", "Final"),
        ],
    };
    let mut list = String::from(r#"<ol class="steps" aria-label="Progress">"#);
    for (step, class, when) in steps {
        let current = if *step == now {
            r#" aria-current="step""#
        } else {
            ""
        };
        let _ = write!(
            list,
            r#"<li class="{class}"{current}><span>{}</span> <span class="when">{when}</span></li>"#,
            Text(progress(*step))
        );
    }
    list + "</ol>"
}

fn list(parcels: &[Parcel], numbered: bool) -> String {
    let mut list = String::from(r#"<ul class="parcels">"#);
    for parcel in parcels {
        list += r#"<li class="parcel"><dl class="facts">"#;
        let mut fact = |name: &str, class: &str, value: &str| {
            let value = Text(value);
            let _ = write!(
                list,
                "<div><dt>{name}</dt><dd{class}><bdi>{value}</bdi></dd></div>"
            );
        };
        if let Some(carrier) = &parcel.carrier {
            fact("Carrier", "", carrier);
        }
        if numbered {
            fact("Tracking number", r#" class="number""#, &parcel.number);
        }
        fact(
            "Status",
            "",
            if parcel.shipped { SHIPPED } else { ANNOUNCED },
        );
        list += "</dl>";
        let carrier = parcel.carrier.as_deref().unwrap_or_default();
        if let Some(link) = carrier::link(carrier, &parcel.number) {
            let _ = write!(
                list,
                r#"<a class="go" rel="noopener noreferrer nofollow" href="{}">Track at <bdi>{}</bdi></a>"#,
                Text(&link.url),
                Text(link.host)
            );
        }
        list += "</li>";
    }
    list + "</ul>"
}

const SHIPPED: &str = "Shipped";
const ANNOUNCED: &str = "Announced: the carrier may not have it yet";

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

fn reason(settled: Settled) -> &'static str {
    match settled {
        Settled::Cancelled => "This order was cancelled, so nothing is due for it.",
        Settled::Paid => "This order has been paid. Thank you.",
        Settled::PartiallyRefunded => {
            "This order was paid, and part of the money was given back. Nothing is due for it."
        }
        Settled::Refunded => "The money for this order was given back. Nothing is due for it.",
        Settled::Voided => "The payment for this order was called off, so nothing is due for it.",
        Settled::Authorized => {
            "The payment is authorized: the money is set aside, and the shop will collect it. \
             There is nothing more for you to do."
        }
        Settled::Zero => "Nothing is left to pay for this order.",
    }
}

fn disagreement(due: Due, asked: Asked) -> Option<String> {
    let asks = match asked {
        Asked::Nothing => return None,
        Asked::Amount(money) if due == Due::Amount(money) => return None,
        Asked::Amount(money) => format!("The link you followed asks for {}", amount(money)),
        Asked::Garbled => "The link you followed asks for an amount that cannot be read".to_owned(),
    };
    Some(match due {
        Due::Amount(money) => {
            let due = amount(money);
            format!("{asks}; the amount due for this order is {due}. Pay no more than {due}.")
        }
        Due::Nothing(_) => format!("{asks}; nothing is due for this order. Do not pay it."),
        Due::AskShop => format!("{asks}; ask the shop before you pay anything."),
    })
}

fn amount(money: Money) -> String {
    format!("{money} {}", money.currency)
}

fn updated(at: Option<Timestamp>) -> String {
    let Some(at) = at else {
        return String::new();
    };
    format!(
        r#"<footer>Updated <time datetime="{}">{}</time></footer>"#,
        Text(&at.to_string()),
        Text(&at.in_words())
    )
}

/// Any text, made fit for HTML's text and quoted attributes. Control characters are left
/// out: HTML has no way to write most of them.
pub struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().filter(|c| !c.is_control()) {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use domain::due::Account;
    use domain::money::Currency;

    use super::*;

    /// Everything that means something to HTML, in one text.
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
                told: None,
                status: None,
                total: Some(usd(40_300)),
                outstanding: None,
                brought: Some(0),
            },
            updated_at: Timestamp(1_800_000_000_000),
        }
    }

    fn parcel(text: &str) -> Parcel {
        Parcel {
            number: text.into(),
            carrier: Some(text.into()),
            shipped: true,
            updated_at: Timestamp(1_800_000_060_000),
        }
    }

    /// What of a page is not the style: there an element or attribute would be a foreign one.
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
                page.contains("&lt;script&gt;alert(&#39;&amp;&#39;)"),
                "{page}"
            );
            assert!(!page.contains(['\u{0}', '\u{1b}']));
            assert_eq!(page.matches('<').count(), page.matches('>').count());
        }
    }

    #[test]
    fn a_link_that_asks_for_what_is_due_is_not_warned_of() {
        let due = Due::Amount(usd(40_300));
        assert_eq!(disagreement(due, Asked::Nothing), None);
        assert_eq!(disagreement(due, Asked::Amount(usd(40_300))), None);
    }

    #[test]
    fn a_link_that_asks_for_anything_else_is_warned_of() {
        let euro = Money {
            minor: 40_300,
            currency: Currency::parse("EUR").unwrap(),
        };
        let due = Due::Amount(usd(40_300));
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
                Due::Nothing(Settled::Paid),
                Asked::Amount(usd(1)),
                "The link you followed asks for 0.01 USD; nothing is due for this order. Do not \
                 pay it.",
            ),
            (
                Due::AskShop,
                Asked::Amount(usd(1)),
                "The link you followed asks for 0.01 USD; ask the shop before you pay anything.",
            ),
        ] {
            assert_eq!(disagreement(due, asked).as_deref(), Some(warning));
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
            let steps = steps(progress);
            let words = steps.replace("</li><li", ", <li");
            let mut inside = false;
            let words: String = words
                .chars()
                .filter(|c| {
                    inside = *c == '<' || (inside && *c != '>');
                    !inside && *c != '>'
                })
                .collect();
            assert_eq!(words, marked);
            assert_eq!(steps.matches("aria-current=\"step\"").count(), 1);
        }
    }

    #[test]
    fn times_are_written_out_in_utc() {
        assert_eq!(
            updated(Some(Timestamp(1_800_000_000_000))),
            "<footer>Updated <time datetime=\"2027-01-15T08:00:00.000Z\">15 January 2027, 08:00 \
             UTC</time></footer>"
        );
        assert!(updated(Some(Timestamp(i64::MAX))).contains("ms</time>"));
    }

    #[test]
    fn the_style_can_stand_in_a_page_as_it_is() {
        assert!(!STYLE.contains("</") && !STYLE.contains("url(") && !STYLE.contains("@import"));
        assert!(STYLE.is_ascii() && !STYLE.contains('\r'));
    }

    /// WCAG 2.1, 1.4.3 (text: 4.5) and 1.4.11 (marks: 3).
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
