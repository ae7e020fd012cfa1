//! What people and programs give in queries, forms and settings: patterns of events, addresses to return to, names of
//! shops, templates, links, numbers of parcels.

use domain::api_key::{self, Scope};
use domain::carrier;
use domain::catalogue::Catalogue;
use domain::event::Pattern;
use domain::license::Tier;
use domain::notification::Template;
use domain::origins::{Origins, is_this_machine};
use domain::pause::{Scope as Paused, Target};

use super::input::{Input, text};

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 8 {
        0 | 1 => pattern(&mut input),
        2 | 3 => origin(text(input.rest())),
        4 => template(&mut input),
        5 => catalogue(text(input.rest())),
        6 => parcel(&mut input),
        _ => names(text(input.rest())),
    }
}

fn pattern(input: &mut Input) {
    let (given, kind) = (input.text(120), input.text(60));
    let Ok(pattern) = given.parse::<Pattern>() else {
        return;
    };
    assert_eq!(pattern.as_str(), given);
    assert_eq!(pattern.to_string().parse(), Ok(pattern.clone()));
    let fits = pattern.fits(kind);
    assert_eq!(fits, is_match(given, kind), "{given} {kind}");
    assert!(
        !fits || kind.starts_with(pattern.prefix()),
        "{given} {kind}"
    );
    assert!(Pattern::all().fits(kind));
    if !given.contains(['*', '#']) {
        assert!(pattern.fits(given) && fits == (given == kind));
    }
}

/// The same by a table: whether the first words of a kind fit the first of a pattern.
fn is_match(pattern: &str, kind: &str) -> bool {
    let kind: Vec<&str> = kind.split('.').collect();
    let mut fits = vec![false; kind.len() + 1];
    fits[0] = true;
    for word in pattern.split('.') {
        let before = fits.clone();
        for taken in 0..=kind.len() {
            fits[taken] = match word {
                "#" => before[..=taken].contains(&true),
                word => taken > 0 && before[taken - 1] && (word == "*" || word == kind[taken - 1]),
            };
        }
    }
    fits[kind.len()]
}

fn origin(given: &str) {
    let shop = Origins::read("https://shop.example,http://[::1]:8000").expect("origins");
    for origins in [&shop, &Origins::of_public_url("https://waybill.example/a")] {
        let Ok(passed) = origins.check(given) else {
            continue;
        };
        assert!(passed.starts_with("https://") || passed.starts_with("http://"));
        assert!(
            passed
                .bytes()
                .all(|it| it.is_ascii_graphic() && it != b'\\'),
            "{passed}"
        );
        assert_eq!(origins.check(&passed).as_ref(), Ok(&passed), "{given}");
        let (_, rest) = passed.split_once("://").expect("an address");
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        assert!(!authority.contains('@'));
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|it| it.is_ascii_digit()) => host,
            _ => authority,
        };
        assert!(
            ["shop.example", "[::1]", "waybill.example"].contains(&host) || is_this_machine(host),
            "{passed}"
        );
    }
    if let Ok(origins) = Origins::read(given) {
        for entry in given.split(',').map(str::trim) {
            assert!(origins.check(entry).is_ok(), "{entry}");
        }
    }
}

fn template(input: &mut Input) {
    const KNOWN: [&str; 2] = ["order", "name"];
    let value = input.text(40);
    let rest = input.text(255);
    match Template::parse(rest, &KNOWN) {
        Ok(template) => {
            let mail = template.render(&[("order", value)]);
            assert!(!mail.subject.contains(['\r', '\n']), "{:?}", mail.subject);
            assert!(mail.body.ends_with('\n'));
            assert_eq!(template.render(&[("order", value)]), mail);
        }
        Err(errors) => assert!(errors.iter().all(|error| error.line > 0) && !errors.is_empty()),
    }
}

fn catalogue(given: &str) {
    let Ok(catalogue) = Catalogue::read(given) else {
        return;
    };
    let counts = Tier::ALL.map(|tier| catalogue.of(tier).count());
    assert!(counts.is_sorted());
}

fn parcel(input: &mut Input) {
    let company = input.one_of(&[
        "UPS",
        "DHL Express",
        "usps",
        "FedEx",
        "DPD",
        "Royal Mail",
        "ontrac",
    ]);
    let given = input.text(60);
    for (company, number) in [(company, given), (given, "1Z999AA10123456784")] {
        if let Some(link) = carrier::link(company, number) {
            let rest = link.url.strip_prefix("https://").expect("https");
            assert!(rest.starts_with(link.host) && rest[link.host.len()..].starts_with(['/', '?']));
            assert!(
                link.url.bytes().all(|it| it.is_ascii_graphic()),
                "{}",
                link.url
            );
        }
    }
}

fn names(given: &str) {
    if let Ok(shop) = api_key::shop(given) {
        assert_eq!(api_key::shop(&shop).as_ref(), Ok(&shop));
        assert!(shop.eq_ignore_ascii_case(given));
    }
    if let Ok(scope) = given.parse::<Scope>() {
        assert_eq!(scope.to_string(), given);
    }
    if let Ok(tier) = given.parse::<Tier>() {
        assert_eq!(tier.into_str(), given);
    }
    for scope in Paused::ALL {
        if let Ok(target) = Target::new(scope, given) {
            assert_eq!(Target::new(scope, target.name()), Ok(target.clone()));
            assert_eq!(target.scope(), scope);
        }
    }
}
