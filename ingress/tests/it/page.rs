//! The public pages: their texts, their style and their templates.

use std::collections::BTreeSet;

use config::connection::Mailbox;
use domain::branding::{self, Branding, Language};
use domain::due::{AmountDue, NothingDue};
use domain::money::{Currency, Money};
use domain::order::outcome::ParcelState;
use domain::time::Timestamp;
use ingress::page::texts::Texts;
use ingress::page::{Asked, SCRIPT, STYLE, Shop, choose, pay, track, tracking};
use store::public_orders::{Parcel, Progress, PublicOrder};

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
        status: None,
        total: Some(usd(40_300)),
        due: AmountDue::Amount(usd(40_300)),
        parcels: Vec::new(),
        shipments: Vec::new(),
        page_url: None,
        is_of_code: false,
        updated_at: Timestamp(1_800_000_000_000),
    }
}

fn parcel(text: &str) -> Parcel {
    Parcel {
        number: text.into(),
        carrier: Some(text.into()),
        state: ParcelState::Shipped,
        page_url: None,
        updated_at: Timestamp(1_800_000_060_000),
    }
}

fn english() -> &'static Texts {
    Texts::of(Language::English)
}

/// The page of an order, in English.
fn track_page(order: &PublicOrder) -> String {
    track(order, None, english(), None).html().to_owned()
}

/// The page without its style and its script, in which the test looks for foreign elements and attributes.
fn markup(page: &str) -> String {
    let script = format!("<script>{SCRIPT}</script>");
    page.replace(STYLE, "").replace(&script, "")
}

#[test]
fn hostile_text_stays_text_wherever_it_is_shown() {
    let parcels = [parcel(HOSTILE)];
    let order = PublicOrder {
        parcels: parcels.to_vec(),
        ..order(HOSTILE, Progress::Shipped)
    };
    let shops = [HOSTILE.to_owned()];
    let asked = Asked::Garbled;
    let hostile = "orders@shop.example".parse().unwrap();
    let sender = Mailbox::new(Some(HOSTILE.to_owned()), hostile);
    let branding = Branding {
        display_name: None,
        contact: Some(HOSTILE.to_owned()),
        language: None,
        logo: Some(HOSTILE.to_owned()),
    };
    let texts = english();
    let shop = |sender| {
        Some(Shop {
            domain: HOSTILE,
            sender,
            branding: &branding,
        })
    };
    for page in [
        track(&order, shop(None), texts, None),
        track(&order, shop(Some(&sender)), texts, None),
        tracking(HOSTILE, &parcels, texts, None),
        pay(&order, asked, shop(None), texts),
        choose(7, &shops, asked, texts),
    ] {
        let page = markup(page.html());
        assert!(
            !page.contains("<script") && !page.contains("<img src=x"),
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

/// What the page of a payment link warns of, for an order with this total.
fn warning(due: AmountDue, asked: Asked, total: Option<Money>) -> Option<String> {
    let mut order = order("#1001", Progress::Received);
    (order.due, order.total) = (due, total);
    let page = pay(&order, asked, None, english());
    let (_, rest) = page
        .html()
        .split_once("<strong>Check the amount</strong> ")?;
    let (warning, _) = rest.split_once("</p>").unwrap();
    Some(warning.to_owned())
}

#[test]
fn a_link_that_asks_for_what_is_due_is_not_warned_of() {
    let due = AmountDue::Amount(usd(40_300));
    let total = Some(usd(40_300));
    assert_eq!(warning(due, Asked::Nothing, total), None);
    assert_eq!(warning(due, Asked::Amount(usd(40_300)), total), None);
}

#[test]
fn the_link_by_which_an_order_was_paid_is_not_warned_of_afterwards() {
    let asked = Asked::Amount(usd(40_300));
    let warns = |reason, total| {
        let due = AmountDue::Nothing(reason);
        warning(due, asked, total).is_some()
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
    for (due, asked, expected) in [
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
        assert_eq!(warning(due, asked, total).as_deref(), Some(expected));
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
        let page = track_page(&order("#1001", progress));
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
    let page = track_page(&order);
    let footer = "<footer>Updated <time datetime=\"2027-01-15T08:00:00.000Z\">15 January 2027, \
                  08:00 UTC</time></footer>";
    assert!(page.contains(footer), "{page}");
    order.updated_at = Timestamp(i64::MAX);
    assert!(track_page(&order).contains("ms</time>"));
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
            .map(str::trim)
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
            "<figure class=\"part code\"><span aria-hidden=\"true\">{{ code|safe }}</span><figcaption>{{ texts.scan }}</figcaption></figure>",
            "<script>{{ crate::page::SCRIPT|safe }}</script>",
            "<style>{{ crate::openapi::page::STYLE|safe }}</style>",
            "<style>{{ crate::page::STYLE|safe }}</style>",
        ]
    );
    let ours = [
        "#{{ article.id }}",
        "#{{ group.anchor }}",
        "#{{ scheme }}",
        "/docs#{{ crate::openapi::anchor(name) }}",
        "?shop={{ shop.query }}",
        "{{ contact.link }}",
        "{{ link.url }}",
        "{{ logo }}",
    ];
    assert_eq!(links, BTreeSet::from(ours.map(str::to_owned)));
}

#[test]
fn every_language_has_texts_of_its_own_for_all_that_can_be_said() {
    let everything = |language: Language| {
        let texts = Texts::of(language);
        let states = [
            ParcelState::Announced,
            ParcelState::Shipped,
            ParcelState::OutForDelivery,
            ParcelState::Attempted,
            ParcelState::ReadyForPickup,
            ParcelState::Delivered,
            ParcelState::NotDelivered,
            ParcelState::Returned,
            ParcelState::Cancelled,
        ];
        let mut all = String::new();
        for progress in [
            Progress::Received,
            Progress::Preparing,
            Progress::Shipped,
            Progress::Cancelled,
            Progress::NotShipping,
        ] {
            let parcels = states.map(|state| Parcel {
                state,
                ..parcel("P")
            });
            let order = PublicOrder {
                parcels: parcels.to_vec(),
                ..order("#1001", progress)
            };
            all += track(&order, None, texts, None).html();
        }
        all += tracking("P", &[parcel("P"), parcel("P")], texts, None).html();
        for due in [
            AmountDue::Amount(usd(40_300)),
            AmountDue::Nothing(NothingDue::Paid),
            AmountDue::AskShop,
        ] {
            for asked in [Asked::Garbled, Asked::Amount(usd(1))] {
                let order = PublicOrder {
                    due,
                    ..order("#1001", Progress::Received)
                };
                all += pay(&order, asked, None, texts).html();
            }
        }
        all += choose(7, &[String::new()], Asked::Nothing, texts).html();
        markup(&all)
    };
    let english = everything(Language::English);
    let sentences = |page: &str| -> BTreeSet<String> {
        let texts = page.split('<').filter_map(|part| part.split_once('>'));
        texts
            .map(|(_, text)| text.trim().to_owned())
            .filter(|text| text.split_whitespace().count() > 3)
            .collect()
    };
    assert!(sentences(&english).len() > 15, "{english}");
    for language in Language::ALL {
        let page = everything(language);
        assert!(page.contains(&format!("<html lang=\"{}\">", language.tag())));
        assert!(!page.contains("{}") && !page.contains("{day}"), "{page}");
        if language != Language::English {
            let same: Vec<_> = sentences(&english)
                .intersection(&sentences(&page))
                .cloned()
                .collect();
            assert!(same.is_empty(), "{language:?}: {same:?}");
            assert!(page.contains("403,00 USD"), "{page}");
        }
    }
}

#[test]
fn times_and_amounts_are_written_as_the_language_does() {
    let order = order("#1001", Progress::Received);
    for (language, expected) in [
        (Language::English, "15 January 2027, 08:00 UTC"),
        (Language::German, "15. Januar 2027, 08:00 UTC"),
        (Language::French, "15 janvier 2027, 08:00 UTC"),
        (Language::Spanish, "15 de enero de 2027, 08:00 UTC"),
    ] {
        let page = track(&order, None, Texts::of(language), None);
        assert!(page.html().contains(expected), "{}", page.html());
    }
}

/// A page says what a parcel is, also when its order is not what it was. One that is not sent leads nowhere.
#[test]
fn a_parcel_that_came_back_or_is_not_sent_says_so() {
    let of = |state| Parcel {
        state,
        carrier: Some("DHL".to_owned()),
        ..parcel("00340434161094042557")
    };
    for (progress, state, said, has_link) in [
        (
            Progress::Shipped,
            ParcelState::Returned,
            "Returned to the shop",
            true,
        ),
        (
            Progress::Shipped,
            ParcelState::Cancelled,
            "Cancelled: it is not sent",
            false,
        ),
        (
            Progress::Cancelled,
            ParcelState::Shipped,
            "Shipped before the order was cancelled",
            true,
        ),
    ] {
        let order = PublicOrder {
            parcels: vec![of(state)],
            ..order("#1001", progress)
        };
        let page = track_page(&order);
        assert!(page.contains(said), "{said}: {page}");
        assert_eq!(page.contains("class=\"go\""), has_link, "{page}");
    }
}

/// The sentence of an order is that of all its shipments, with a tracking number or without.
#[test]
fn the_sentence_of_an_order_is_that_of_all_its_shipments() {
    use ParcelState::{
        Announced, Attempted, Delivered, NotDelivered, OutForDelivery, ReadyForPickup, Returned,
        Shipped,
    };
    let (sent, partly) = (Progress::Shipped, Progress::Preparing);
    for (progress, shipments, said) in [
        (sent, vec![], "Your order is on its way."),
        (sent, vec![Shipped], "Your order is on its way."),
        (sent, vec![Delivered, Shipped], "Your order is on its way."),
        (sent, vec![Attempted], "Your order is on its way."),
        (
            sent,
            vec![Delivered, Delivered],
            "Your order was delivered.",
        ),
        (sent, vec![Returned], "Your order came back to the shop."),
        (
            sent,
            vec![ReadyForPickup],
            "Your order is ready to be picked up.",
        ),
        (
            sent,
            vec![NotDelivered],
            "The carrier could not deliver your order.",
        ),
        (
            sent,
            vec![Announced],
            "The shop has announced your order to the carrier.",
        ),
        (
            sent,
            vec![Delivered, Returned],
            "How far each parcel is, is below.",
        ),
        (partly, vec![], "The shop is getting your order ready."),
        (
            partly,
            vec![Announced],
            "The shop is getting your order ready.",
        ),
        (
            partly,
            vec![OutForDelivery],
            "Part of your order is on its way.",
        ),
        (partly, vec![Delivered], "Part of your order was sent."),
        (
            Progress::Cancelled,
            vec![Delivered],
            "This order was cancelled.",
        ),
    ] {
        let order = PublicOrder {
            shipments: shipments.clone(),
            ..order("#1001", progress)
        };
        let page = track_page(&order);
        assert!(page.contains(said), "{shipments:?} {said}: {page}");
    }
}

#[test]
fn a_shop_shows_its_name_its_contact_and_its_logo() {
    let sender = Mailbox::new(
        Some("Sender".to_owned()),
        "orders@shop.example".parse().unwrap(),
    );
    let with = |branding: &Branding, sender| {
        let shop = Shop {
            domain: "shop.example",
            sender,
            branding,
        };
        let order = order("#1001", Progress::Received);
        track(&order, Some(shop), english(), None).html().to_owned()
    };
    let nothing = with(&Branding::default(), None);
    assert!(nothing.contains("<bdi>shop.example</bdi>") && !nothing.contains("<img"));
    let of_sender = with(&Branding::default(), Some(&sender));
    assert!(
        of_sender.contains("<bdi>Sender</bdi>") && of_sender.contains("mailto:orders@shop.example")
    );
    let branding = Branding {
        display_name: Some("Mugs & more".to_owned()),
        contact: Some("https://shop.example/help".to_owned()),
        language: None,
        logo: Some("https://cdn.example/logo.svg".to_owned()),
    };
    let own = with(&branding, Some(&sender));
    assert!(own.contains("<bdi>Mugs &#38; more</bdi>"), "{own}");
    assert!(
        own.contains("href=\"https://shop.example/help\">Ask the shop</a>"),
        "{own}"
    );
    assert!(
        own.contains("src=\"https://cdn.example/logo.svg\""),
        "{own}"
    );
    assert!(!own.contains("mailto:"), "{own}");
}

#[test]
fn a_reader_gets_the_language_that_they_prefer_among_ours() {
    for (accepted, expected) in [
        ("de", Some(Language::German)),
        ("de-AT,de;q=0.9,en;q=0.8", Some(Language::German)),
        ("pl,en;q=0.5", Some(Language::English)),
        ("en;q=0.1, FR-ch;q=0.9", Some(Language::French)),
        ("es;q=0", None),
        ("pl, it;q=0.9", None),
        ("*", None),
        ("", None),
        ("de;q=nonsense,fr;q=0.2", Some(Language::French)),
        ("en;Q=0.2, de;q=0.8;x=1", Some(Language::German)),
        (
            "\u{20ac}\u{20ac};\u{20ac}\u{20ac}, fr",
            Some(Language::French),
        ),
    ] {
        assert_eq!(Language::preferred(accepted), expected, "{accepted}");
    }
}

#[test]
fn only_what_can_be_shown_is_taken_as_a_branding() {
    for wrong in [
        "",
        "x",
        "javascript:alert(1)",
        "http://shop.example/logo.svg",
        "https://a:b@c.example/x",
        "//x.example",
        // What would become more than an origin in a policy.
        "https://x;sandbox/logo.svg",
        "https://a,b/logo.svg",
        "https://*/logo.svg",
        "https://[2001:db8::1]/logo.svg",
    ] {
        assert!(branding::logo(wrong).is_err(), "{wrong}");
    }
    let page = branding::contact("HTTPS:Shop.example/help").unwrap();
    assert_eq!(page, "https://shop.example/help");
    assert!(branding::logo("https://cdn.example/logo.svg?v=2").is_ok());
    assert!(branding::logo("http://127.0.0.1:8080/logo.svg").is_ok());
    for wrong in [
        "",
        "nobody",
        "a@b@c",
        "a b@c.example",
        "x@y?subject=1",
        "javascript:alert(1)",
    ] {
        assert!(branding::contact(wrong).is_err(), "{wrong}");
    }
    assert!(branding::contact("help@shop.example").is_ok());
    assert!(branding::name("\u{7}").is_err() && branding::name(&"x".repeat(81)).is_err());
    assert!(branding::language("it").is_err());
}

#[test]
fn the_style_can_stand_in_a_page_as_it_is() {
    assert!(!STYLE.contains("</") && !STYLE.contains("url(") && !STYLE.contains("@import"));
    assert!(STYLE.is_ascii() && !STYLE.contains('\r'));
    assert!(!SCRIPT.contains("</") && !SCRIPT.contains("fetch") && !SCRIPT.contains("innerHTML"));
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
