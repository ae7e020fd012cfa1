//! Items of a checkout: as they are stored, their total, and the order that is made of them.

use domain::checkout::{Article, Item, order, total};
use domain::money::Currency;
use domain::order::FinancialStatus;
use domain::order::record::{Part, Record, Version};

fn mug(quantity: i64) -> Item {
    let article = Article::Priced {
        name: "Mug".to_owned(),
        amount: 1450,
        currency: Currency::parse("EUR").unwrap(),
        variant_id: Some(7),
        sku: None,
    };
    Item { article, quantity }
}

fn known() -> Item {
    let price = "price_1".to_owned();
    Item {
        article: Article::Known { price },
        quantity: 1,
    }
}

#[test]
fn items_are_read_as_they_are_stored() {
    let items = vec![mug(2), known()];
    let stored = serde_json::to_string(&items).unwrap();
    let read: Vec<Item> = serde_json::from_str(&stored).unwrap();
    assert_eq!(read, items);
}

#[test]
fn the_total_is_known_when_every_price_is() {
    assert_eq!(total(&[mug(2), mug(1)]).unwrap().to_string(), "43.50");
    assert_eq!(total(&[mug(1), known()]), None);
    assert_eq!(total(&[mug(i64::MAX)]), None);
}

#[test]
fn whatever_a_provider_says_later_takes_the_place_of_what_was_asked_for() {
    let mut order = order(&[mug(2)], "pact_1", 1_800_000_000_000);
    let version = Version { at: 0, tie: 1 };
    let mut reported = Record::unknown(version);
    reported.financial = Part {
        version,
        value: Some(FinancialStatus::Paid),
    };
    order.merge(reported);
    assert_eq!(order.financial_status(), Some(FinancialStatus::Paid));
    assert_eq!(order.lines.value.len(), 1, "what is not in it stays");
}
