//! `GET /api/commerce/orders`: every order once, page by page, whatever is added meanwhile; only
//! those that fit; and only those of shops that the key opens.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::api_key::{Rights, Scope, Shops};
use serde_json::{Value, json};

use crate::support::delivery::SHOP;
use crate::support::order::{body, cancelled, deliver, fulfilment, order_delivery, shown, with};
use crate::support::records::{insert_order, part, unknown_order};
use crate::support::{Service, service};

const OTHER: &str = "other.example";
const LIST: &str = "/api/commerce/orders";

/// Orders as they are stored: shop, id, when each was ordered and when its first delivery came.
async fn insert(service: &Service, orders: &[(&str, i64, Option<i64>, i64)], paid: bool) {
    let status = if paid { "paid" } else { "pending" };
    for (shop, id, ordered_at, created_at) in orders {
        let mut order = unknown_order();
        order.name = part(Some(format!("#{id}")));
        order.financial = part(Some(status.to_owned().into()));
        order.ordered_at = *ordered_at;
        let key = ((*shop).to_owned(), *id);
        insert_order(service.db(), &key, order, *created_at).await;
    }
}

async fn page(service: &Service, key: &str, query: &str) -> Value {
    let path = format!("{LIST}?{query}");
    let answer = service.get(&path).bearer_auth(key).send().await.unwrap();
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    assert_eq!(status, 200, "{query}: {body}");
    body
}

fn places(page: &Value) -> Vec<(String, i64)> {
    let orders = page["orders"].as_array().unwrap().iter();
    let place = |order: &Value| {
        let shop = order["shop"].as_str().unwrap().to_owned();
        (shop, order["id"].as_i64().unwrap())
    };
    orders.map(place).collect()
}

/// Reads to the end as a client does; all orders, and how many pages it took.
async fn read_all(service: &Service, key: &str, filter: &str) -> (Vec<(String, i64)>, usize) {
    let (mut all, mut pages) = (Vec::new(), 0);
    let mut query = filter.to_owned();
    loop {
        let page = page(service, key, &query).await;
        all.extend(places(&page));
        pages += 1;
        let Some(next) = page["next"].as_str() else {
            return (all, pages);
        };
        query = format!("{filter}&after={next}");
    }
}

/// What an order says in one field.
type Says = fn(&Value) -> &Value;

fn of_shops(shops: &[&str]) -> Rights {
    Rights {
        scopes: None,
        shops: Shops(Some(shops.iter().map(|&shop| shop.to_owned()).collect())),
    }
}

#[tokio::test]
async fn orders_are_read_from_a_cursor_on_and_those_that_are_added_meanwhile_hide_none() {
    let service = service().without_workers().start().await;
    let key = service.api_key().await;
    // Several of the same moment, of two shops, and some of which nobody said when.
    let mut orders = Vec::new();
    for id in 1..=12 {
        let ordered = (id % 4 != 0).then_some(1000 + id / 3);
        for shop in [SHOP, OTHER] {
            orders.push((shop, id, ordered, 1001 + id / 4));
        }
    }
    insert(&service, &orders, false).await;
    let mut expected: Vec<(i64, String, i64)> = orders
        .iter()
        .map(|(shop, id, ordered, created)| (ordered.unwrap_or(*created), (*shop).to_owned(), *id))
        .collect();
    expected.sort();
    expected.reverse();
    let expected: Vec<(String, i64)> = expected
        .into_iter()
        .map(|(_, shop, id)| (shop, id))
        .collect();
    assert_eq!(read_all(&service, &key, "limit=5").await.0, expected);
    assert_eq!(
        read_all(&service, &key, "limit=1000").await,
        (expected.clone(), 1)
    );
    // While somebody reads, newer orders come and known ones change.
    let (mut read, mut query) = (Vec::new(), "limit=5".to_owned());
    for newer in 100.. {
        let page = page(&service, &key, &query).await;
        read.extend(places(&page));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        query = format!("limit=5&after={next}");
        insert(&service, &[(SHOP, newer, Some(newer * 1000), newer)], true).await;
        service
            .execute("update orders set financial_status = 'paid', updated_at = updated_at + 7")
            .await;
    }
    assert_eq!(read, expected, "each once, in their sequence");
    service.stop().await;
}

#[tokio::test]
async fn a_key_lists_the_orders_of_its_own_shops_and_learns_of_no_other() {
    let service = service().without_workers().start().await;
    let shops = ["a.example", "b.example", "c.example"];
    let orders: Vec<_> = (1..=9)
        .map(|id| (shops[usize::try_from(id % 3).unwrap()], id, Some(id / 2), 1))
        .collect();
    insert(&service, &orders, false).await;
    let one = service.api_key_for("one", &of_shops(&["a.example"])).await;
    let two = service
        .api_key_for("two", &of_shops(&["a.example", "c.example"]))
        .await;
    let ids = |all: &[(String, i64)]| all.iter().map(|(_, id)| *id).collect::<Vec<_>>();
    for limit in [1, 2, 100] {
        let filter = format!("limit={limit}");
        let (read, _) = read_all(&service, &one, &filter).await;
        assert_eq!(ids(&read), [9, 6, 3], "{limit}");
        let (read, _) = read_all(&service, &two, &filter).await;
        assert_eq!(ids(&read), [8, 9, 6, 5, 2, 3], "{limit}");
        let (read, _) = read_all(&service, &two, &format!("{filter}&shop=C.example")).await;
        assert_eq!(ids(&read), [8, 5, 2], "{limit}");
        let (read, _) = read_all(&service, &two, &format!("{filter}&name=%237")).await;
        assert_eq!(ids(&read), [0; 0], "of b.example");
    }
    let foreign = page(&service, &one, "shop=b.example").await;
    assert_eq!(foreign, json!({"orders": [], "next": null}));
    // A cursor is the place of an order that the key may see.
    let (mut query, mut cursors) = ("limit=1".to_owned(), 0);
    while let Some(next) = page(&service, &two, &query).await["next"].as_str() {
        let place = String::from_utf8(URL_SAFE_NO_PAD.decode(next).unwrap()).unwrap();
        let is_own = place.ends_with("a.example") || place.ends_with("c.example");
        assert!(is_own, "{place}");
        query = format!("limit=1&after={next}");
        cursors += 1;
    }
    assert_eq!(cursors, 5);
    service.stop().await;
}

#[tokio::test]
async fn each_filter_finds_the_orders_of_which_the_api_says_the_same() {
    let service = service().start().await;
    let key = service.api_key().await;
    let shipped = json!({
        "fulfillment_status": "fulfilled",
        "fulfillments": [fulfilment(9, &["T-1"], &[(1, 2), (2, 1)])],
    });
    let named = json!({"name": "#1001", "created_at": "2027-01-10T00:00:00Z"});
    for (topic, order, shop) in [
        ("orders/create", body(1001, 1, "pending"), SHOP),
        ("orders/paid", body(1002, 1, "paid"), SHOP),
        ("orders/cancelled", cancelled(1003, 1, "paid"), SHOP),
        (
            "orders/fulfilled",
            with(body(1004, 1, "paid"), &shipped),
            SHOP,
        ),
        (
            "orders/create",
            with(body(7, 1, "authorized"), &named),
            OTHER,
        ),
    ] {
        deliver(&service, &order_delivery(topic, &order).of_shop(shop)).await;
    }
    let everything = page(&service, &key, "").await;
    assert_eq!(everything["next"], Value::Null);
    let listed = everything["orders"].as_array().unwrap();
    assert_eq!(listed.len(), 5);
    let mut full = Vec::new();
    for order in listed {
        let (shop, id) = (
            order["shop"].as_str().unwrap(),
            order["id"].as_i64().unwrap(),
        );
        let shown = shown(&service, &key, shop, id).await;
        for (field, value) in order.as_object().unwrap() {
            match field.as_str() {
                "fulfillment" => assert_eq!(value["state"], shown["fulfillment"]["state"]),
                field => assert_eq!(*value, shown[field], "{field} of {id}"),
            }
        }
        full.push(shown);
    }
    let fields: [(&str, Says); 4] = [
        ("state", |order| &order["fulfillment"]["state"]),
        ("financial_status", |order| &order["financial_status"]),
        ("payment_status", |order| &order["payment_status"]),
        ("fulfillment_status", |order| &order["fulfillment_status"]),
    ];
    for (field, says) in fields {
        let values: BTreeSet<Option<&str>> = full.iter().map(|it| says(it).as_str()).collect();
        for value in values {
            let word = value.unwrap_or("none");
            let found = places(&page(&service, &key, &format!("{field}={word}")).await);
            let expected: BTreeSet<i64> = full
                .iter()
                .filter(|order| says(order).as_str() == value)
                .map(|order| order["id"].as_i64().unwrap())
                .collect();
            let found: BTreeSet<i64> = found.into_iter().map(|(_, id)| id).collect();
            assert_eq!(found, expected, "{field}={word}");
        }
    }
    let states: BTreeSet<&str> = full
        .iter()
        .filter_map(|order| order["fulfillment"]["state"].as_str())
        .collect();
    assert!(states.len() > 2, "they differ: {states:?}");
    for (query, ids) in [
        ("name=%231001", vec![1001, 7]),
        ("name=1001", vec![1001, 7]),
        ("name=%231001&shop=other.example", vec![7]),
        ("name=1005", vec![]),
        ("shop=other.example", vec![7]),
        (
            "created_after=2027-01-11T00:00:00Z&state=initiated",
            vec![1001],
        ),
        ("created_after=2027-01-10&shop=other.example", vec![7]),
        ("updated_after=2100-01-01", vec![]),
        ("updated_after=2020-01-01&name=1002", vec![1002]),
        ("financial_status=paid&state=cancelled", vec![1003]),
    ] {
        let found = places(&page(&service, &key, query).await);
        let found: Vec<i64> = found.into_iter().map(|(_, id)| id).collect();
        assert_eq!(found, ids, "{query}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_page_ends_after_a_thousand_orders_that_do_not_fit_and_the_next_one_goes_on() {
    let service = service().without_workers().start().await;
    let key = service.api_key().await;
    insert(
        &service,
        &[(SHOP, 1, Some(1), 1), (SHOP, 2, Some(2), 2)],
        true,
    )
    .await;
    let orders: Vec<_> = (10..2210).map(|id| (SHOP, id, Some(id), id)).collect();
    insert(&service, &orders, false).await;
    let first = page(&service, &key, "financial_status=paid").await;
    assert_eq!(first["orders"], json!([]));
    assert!(first["next"].is_string());
    let paid = read_all(&service, &key, "financial_status=paid").await;
    let expected = [2, 1].map(|id| (SHOP.to_owned(), id)).to_vec();
    assert_eq!(paid, (expected, 3));
    // Without such a filter a page is as long as it was asked for.
    let (all, pages) = read_all(&service, &key, "limit=1000").await;
    assert_eq!((all.len(), pages), (2202, 3));
    service.stop().await;
}

#[tokio::test]
async fn a_wrong_question_is_answered_with_what_is_wrong() {
    let service = service().without_workers().start().await;
    let key = service.api_key().await;
    for query in [
        "limit=0",
        "limit=1001",
        "limit=x",
        "after=x",
        "after=",
        "state=lost",
        "state=",
        "name=",
        "name=%00",
        "shop=%00",
        "financial_status=",
        "created_after=yesterday",
        "updated_after=",
        "limit=1&limit=2",
    ] {
        let path = format!("{LIST}?{query}");
        let answer = service.get(&path).bearer_auth(&key).send().await.unwrap();
        assert_eq!(answer.status(), 422, "{query}");
        let body: Value = answer.json().await.unwrap();
        assert!(body["detail"].as_str().unwrap().contains("%23"), "{body}");
    }
    let scopes = Some(vec![Scope::QrWrite]);
    let rights = Rights {
        scopes,
        shops: Shops::default(),
    };
    let narrow = service.api_key_for("narrow", &rights).await;
    let answer = service.get(LIST).bearer_auth(&narrow).send().await.unwrap();
    assert_eq!(answer.status(), 403);
    assert_eq!(service.get(LIST).send().await.unwrap().status(), 401);
    service.stop().await;
}
