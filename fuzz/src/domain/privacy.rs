//! Privacy requests and the forms in which people are compared. A body is read under one topic at most, and a form that
//! is compared is its own form.

use domain::privacy::{Mentions, Request, Topic, created_at, email, email_key, phone, phone_key};

use super::input::{Input, text};

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 4 {
        0 => forms(text(input.rest())),
        _ => body(input.rest()),
    }
}

fn forms(given: &str) {
    let address = email(given);
    assert_eq!(email(&address), address, "{given:?}");
    let key = email_key(given);
    assert!(key.is_empty() || key == address);
    if let Some(digits) = phone(given) {
        assert!(digits.len() >= 6 && digits.bytes().all(|it| it.is_ascii_digit()));
        assert_eq!(phone(&digits), Some(digits.clone()), "{given:?}");
        assert_eq!(phone_key(given), digits);
    }
}

fn body(given: &[u8]) {
    let read = [Topic::DataRequest, Topic::Redact, Topic::ShopRedact]
        .map(|topic| Request::read(topic, given));
    assert!(read.iter().filter(|read| read.is_ok()).count() <= 1);
    for request in read.iter().flatten() {
        assert!((1..=255).contains(&request.shop.len()));
        assert!(
            !request
                .shop
                .bytes()
                .any(|it| it.is_ascii_uppercase() || !it.is_ascii_graphic())
        );
        assert!(request.orders.iter().all(|id| *id > 0));
        assert!(request.person.id.is_none_or(|id| id > 0));
        assert_eq!(Request::read(request.topic, given).as_ref(), Ok(request));
    }
    let mentions = Mentions::of(given);
    assert_eq!(Mentions::of(given), mentions);
    assert!(
        mentions
            .emails
            .iter()
            .all(|it| it.contains('@') && email(it) == *it)
    );
    for request in read.iter().flatten() {
        if let Some(id) = request.person.id {
            assert_eq!(mentions.customer, Some(id));
        }
        let address = request.person.email.as_deref().map(email);
        if let Some(address) = address.filter(|it| it.contains('@') && it.len() < 300) {
            assert!(mentions.own_emails.contains(&address), "{address}");
        }
    }
    let (emails, phones) = mentions.of_others();
    assert!(emails.is_subset(&mentions.emails) && phones.is_subset(&mentions.phones));
    let _ = created_at(given);
}
