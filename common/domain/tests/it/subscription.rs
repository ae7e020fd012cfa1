//! What is subscribed beside what must be.

use domain::profile::StorefrontProfile;
use domain::subscription::{Subscription, Wanted, Wrong};

const URL: &str = "https://waybill.example";
const HERE: &str = "https://waybill.example/api/webhooks/storefront";

fn wanted(api_url: &str) -> Wanted {
    let shopify = StorefrontProfile::named("shopify").unwrap();
    Wanted::storefront(URL, "shop-b", shopify, api_url)
}

fn subscription(id: &str, url: &str, topics: &[&str]) -> Subscription {
    Subscription {
        id: id.to_owned(),
        url: url.to_owned(),
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        is_active: true,
        api_version: Some("2026-10".to_owned()),
    }
}

/// All but these, here.
fn all_but(left_out: &[&str]) -> Vec<Subscription> {
    let wanted = wanted("");
    let topics = wanted
        .topics
        .iter()
        .filter(|topic| !left_out.contains(topic));
    topics
        .map(|topic| subscription(topic, HERE, &[topic]))
        .collect()
}

#[test]
fn the_topics_of_orders_are_wanted_and_none_about_people() {
    let topics = wanted("").topics;
    assert!(topics.contains(&"orders/paid") && topics.contains(&"orders/delete"));
    assert!(
        topics.iter().all(|topic| topic.starts_with("orders/")),
        "{topics:?}"
    );
    let woo = StorefrontProfile::named("woocommerce").unwrap();
    let topics = Wanted::storefront(URL, "default", woo, "").topics;
    assert_eq!(
        topics,
        [
            "order.created",
            "order.updated",
            "order.restored",
            "order.deleted"
        ]
    );
    let payment = Wanted::payment(URL, "default", false);
    assert_eq!(payment.url, "https://waybill.example/api/webhooks/payment");
    assert!(payment.topics.contains(&"payment_intent.succeeded"));
    assert!(
        payment.topics.iter().all(|topic| !topic.starts_with("v1.")),
        "{:?}",
        payment.topics
    );
}

#[test]
fn a_subscription_is_good_at_both_addresses_and_one_may_bring_everything() {
    for url in [
        HERE,
        "https://waybill.example/api/webhooks/storefront/shop-b",
        "https://waybill.example/api/webhooks/storefront/",
    ] {
        let compared = wanted("").compare(&[subscription("1", url, &["*"])]);
        assert!(compared.is_any_ours && compared.wrong.is_empty(), "{url}");
    }
    // That is another connection's.
    let other = "https://waybill.example/api/webhooks/storefront/shop-c";
    let compared = wanted("").compare(&[subscription("1", other, &["*"])]);
    assert!(!compared.is_any_ours && compared.wrong.len() == 1);
}

#[test]
fn each_topic_is_wrong_in_one_way_and_what_posts_to_others_is_theirs() {
    let mut found = all_but(&["orders/paid", "orders/create", "orders/cancelled"]);
    let mut off = subscription("off", HERE, &["orders/paid"]);
    off.is_active = false;
    let old = "https://user:word@old.example/api/webhooks/storefront?key=secret";
    found.extend([
        off,
        subscription("old", old, &["orders/create"]),
        subscription("theirs", "https://mail.example/hook", &["orders/cancelled"]),
    ]);
    let compared = wanted("").compare(&found);
    let topics = |topic: &str| vec![topic.to_owned()];
    let wrong = [
        Wrong::Off {
            id: "off".to_owned(),
            topics: topics("orders/paid"),
        },
        Wrong::Elsewhere {
            id: "old".to_owned(),
            url: "https://old.example/api/webhooks/storefront".to_owned(),
            topics: topics("orders/create"),
        },
        Wrong::Missing {
            topics: topics("orders/cancelled"),
        },
    ];
    assert_eq!(compared.wrong, wrong);
    assert_eq!(
        compared.in_words().unwrap(),
        "the subscription off to orders/paid is switched off; the subscription old to orders/create posts to \
         https://old.example/api/webhooks/storefront; nothing is subscribed to orders/cancelled"
    );
}

#[test]
fn one_that_is_switched_off_does_not_count_where_another_brings_the_same() {
    let mut found = all_but(&[]);
    let mut off = subscription("off", HERE, &["*"]);
    off.is_active = false;
    found.push(off);
    found.push(subscription(
        "old",
        "https://old.example/api/webhooks/storefront",
        &["*"],
    ));
    assert_eq!(wanted("").compare(&found).wrong, []);
}

#[test]
fn another_version_than_the_one_that_is_called_is_said() {
    let found = all_but(&[]);
    assert_eq!(
        wanted("https://a.example/admin/api/2026-10/")
            .compare(&found)
            .wrong,
        []
    );
    assert_eq!(
        wanted("https://a.example/admin/api").compare(&found).wrong,
        []
    );
    let compared = wanted("https://a.example/admin/api/2027-01").compare(&found);
    assert_eq!(compared.wrong.len(), found.len());
    let other = Wrong::OtherVersion {
        id: "orders/paid".to_owned(),
        topics: vec!["orders/paid".to_owned()],
        version: "2026-10".to_owned(),
        wanted: "2027-01".to_owned(),
    };
    assert!(compared.wrong.contains(&other));
}
