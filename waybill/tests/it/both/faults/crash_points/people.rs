//! Requests of people: exports, erasures and their journal, and the erasure of shops. Whoever asked to be
//! erased is found nowhere, each request has one receipt, and everybody else is there.

use sandbox::Delivery;
use serde_json::{Value, json};

use super::table::{Area, Target, targets};
use super::world::World;
use crate::support::canary::{Found, address, email, phone, scan_database, scan_files, word};
use crate::support::order::{at, body, with};
use crate::support::storm::count;

const SHOP: &str = "people.example";

fn customer(person: usize) -> Value {
    let id = 1000 + person;
    json!({"id": id, "email": email(person), "phone": phone(person)})
}

/// An order of a person, made long ago.
fn order(person: usize, shop: &str) -> Delivery {
    let id = i64::try_from(1000 + person).unwrap();
    let time = |second| at(second).replacen("2027", "2025", 1);
    let order = with(
        body(id, 1, "pending"),
        &json!({
            "created_at": time(0), "updated_at": time(1),
            "email": email(person), "phone": phone(person), "note": word(person, "note"),
            "customer": {
                "id": id, "email": email(person), "phone": phone(person),
                "first_name": word(person, "first"), "last_name": word(person, "last"),
            },
            "shipping_address": address(person, "shipping"),
        }),
    );
    let id = format!("w-{person}-order");
    Delivery::storefront("orders/create", &id, shop, order.to_string())
}

fn data_request(person: usize) -> Delivery {
    let body = json!({
        "shop_id": 7, "shop_domain": SHOP, "orders_requested": [], "customer": customer(person),
        "data_request": {"id": person},
    });
    let id = format!("w-{person}-export");
    Delivery::storefront("customers/data_request", &id, SHOP, body.to_string())
}

fn redact(person: usize) -> Delivery {
    let body = json!({"shop_domain": SHOP, "orders_to_redact": [], "customer": customer(person)});
    let id = format!("w-{person}-redact");
    Delivery::storefront("customers/redact", &id, SHOP, body.to_string())
}

/// Whether the point is one of an export; all others are of an erasure.
fn is_of_export(target: &Target) -> bool {
    let of = target.of.as_str();
    let writes = ["write", "look", "is_erased"];
    let mut writes = writes
        .iter()
        .map(|name| format!("workers::handlers::privacy::export::{name}"));
    of == "store::export_stores::note" || of.starts_with("export-writ") || writes.any(|it| it == of)
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_each_request_of_a_person_ends_once_wherever_its_process_dies() {
    let mut world = World::new(Area::People, &[]).await;
    let mut all = targets(Area::People);
    // A store of exports is new only once.
    all.sort_by_key(|target| target.of != "store::export_stores::note");
    let mut prepared: Vec<Delivery> = (0..all.len()).map(|person| order(person, SHOP)).collect();
    let mut process = world.start("");
    world.is_ready().await;
    world.providers.post(&prepared).await;
    world.rests().await;
    process.kill();
    let is_of_new_store = |target: &&Target| target.of == "store::export_stores::note";
    let of_new_store = all.iter().filter(is_of_new_store).count();
    for (person, target) in all.iter().enumerate() {
        if person == of_new_store {
            let erased = (0..all.len()).filter(|person| !is_of_export(&all[*person]));
            let exports: Vec<Delivery> = erased.map(data_request).collect();
            let mut process = world.start("");
            world.is_ready().await;
            world.providers.post(&exports).await;
            world.rests().await;
            process.kill();
            world.let_time_pass().await;
            prepared.extend(exports);
        }
        let delivery = if is_of_export(target) {
            data_request(person)
        } else {
            redact(person)
        };
        world.posted.push(delivery.clone());
        let providers = world.providers.clone();
        world
            .crash(target, async move {
                providers.post(&[delivery]).await;
            })
            .await;
        world.recover_sometimes().await;
    }
    world.posted.extend(prepared);
    let mut process = world.finish().await;
    process.terminate().await;

    let requests = i64::try_from(world.posted.len() - all.len()).unwrap();
    let done =
        "select count(*) as n from privacy_requests where state = 'done' and receipt is not null";
    assert_eq!(count(&world.db, done).await, requests);
    let events = "select count(*) as n from events where kind = 'privacy.request_completed'";
    assert_eq!(count(&world.db, events).await, requests);
    let audited =
        "select count(*) as n from audit where action in ('export.written', 'customer.erased')";
    assert_eq!(count(&world.db, audited).await, requests);
    let erased = all.iter().filter(|target| !is_of_export(target)).count();
    let kept = "select count(*) as n from erasures";
    assert_eq!(count(&world.db, kept).await, i64::try_from(erased).unwrap());
    let mut found = Found::new();
    scan_database(&world.backend, &mut found).await;
    scan_files(&world.log(), &mut found);
    scan_files(&world.backend.folder().join("exports"), &mut found);
    for (person, target) in all.iter().enumerate() {
        let place = found.get(&person);
        let is_erased = !is_of_export(target);
        assert_eq!(
            place.is_none(),
            is_erased,
            "{person}, {}: {place:?}",
            target.name
        );
    }
    world.db.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_each_shop_is_erased_wherever_its_process_dies() {
    let mut world = World::new(Area::Shops, &[]).await;
    let all = targets(Area::Shops);
    let shop = |nth: usize| format!("shop-{nth}.example");
    let mut orders: Vec<Delivery> = (0..all.len()).map(|nth| order(nth, &shop(nth))).collect();
    // One shop stays.
    orders.push(order(all.len(), &shop(all.len())));
    let mut process = world.start("");
    world.is_ready().await;
    world.providers.post(&orders).await;
    world.rests().await;
    process.kill();
    let mut requests = Vec::new();
    for (nth, target) in all.iter().enumerate() {
        let shop = shop(nth);
        let body = json!({"shop_id": 1, "shop_domain": shop}).to_string();
        let delivery = Delivery::storefront("shop/redact", &format!("w-{nth}-shop"), &shop, body);
        requests.push(delivery.clone());
        let providers = world.providers.clone();
        world
            .crash(target, async move {
                providers.post(&[delivery]).await;
            })
            .await;
        world.recover_sometimes().await;
    }
    // What a shop sent before its erasure is not sent again after it: it has no ids any more.
    world.posted = requests;
    let mut process = world.finish().await;
    process.terminate().await;
    let shops = i64::try_from(all.len()).unwrap();
    let done =
        "select count(*) as n from privacy_requests where state = 'done' and receipt is not null";
    assert_eq!(count(&world.db, done).await, shops);
    assert_eq!(
        count(&world.db, "select count(*) as n from orders").await,
        1
    );
    let audited = "select count(*) as n from audit where action = 'shop.erased'";
    assert_eq!(count(&world.db, audited).await, shops);
    let mut found = Found::new();
    scan_database(&world.backend, &mut found).await;
    scan_files(&world.log(), &mut found);
    let found: Vec<(usize, String)> = found.into_iter().collect();
    assert!(found.len() == 1 && found[0].0 == all.len(), "{found:?}");
    world.db.close().await;
}
