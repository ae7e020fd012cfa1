//! Random worlds: customers, guests, orders, payments, sessions, subscriptions and invoices that
//! share addresses, numbers and the payment provider's customers, before and after a person is
//! erased. Some jobs are done, some are dead, some still wait. A simple
//! search over the sent deliveries, which knows nothing of tables, decides whose each delivery is.
//! By this, no data of the erased person may be in the database, no data of others may be missing,
//! and the export must have been complete.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::job::State;
use serde_json::{Value, json};
use store::privacy_requests::RequestEntry;

use crate::support::backend::{environment, is_distributed, statement};
use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::order::{body, order_delivery, post_all, with};
use crate::support::payment::{event, intent, invoice, session};
use crate::support::records;
use crate::support::requests::{document, entry, posted};
use crate::support::{Service, eventually, service};

/// A generator of its own, so that a world is its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }
}

const PEOPLE: u64 = 5;

/// Telephone numbers, each in some spellings; the last one is made up.
const PHONES: [[&str; 3]; 4] = [
    [
        "+49 30/1234567",
        "tel:+49-30-1234567",
        "0049 (30) 123\u{a0}4567",
    ],
    ["(202) 555-0144", "202.555.0144", "202 555 0144 x12"],
    ["+44 20 7946 0958", "+442079460958", "+44 (0)20 7946 0958"],
    ["000000", "00 00 00", "0000000"],
];

/// Whoever makes orders. Some have an account at the shop.
fn account(person: u64) -> Option<i64> {
    (person < 4).then(|| 700 + i64::try_from(person).unwrap())
}

fn email(person: u64, dice: &mut Dice) -> String {
    let spellings = [
        format!("person{person}ä@example.com"),
        format!(" Person{person}Ä@Example.COM "),
    ];
    spellings[usize::try_from(dice.below(2)).unwrap()].clone()
}

/// A delivery, and what the search knows of it.
struct Sent {
    delivery: Delivery,
    /// Only this delivery has it.
    word: String,
    is_before: bool,
    /// Otherwise its job is dead.
    is_readable: bool,
    /// Its job fails until everything else is done.
    waits: bool,
    order: Option<Order>,
    pays: Option<Pays>,
}

impl Sent {
    /// There is a row of it when the request is worked on.
    fn is_known(&self) -> bool {
        self.is_before && self.is_readable && !self.waits
    }
}

#[derive(Clone, Copy)]
struct Pays {
    /// The person whose address it has, and the one who is the payment provider's customer.
    email: u64,
    payer: u64,
    order: Option<usize>,
}

#[derive(Clone, Copy)]
struct Order {
    id: i64,
    customer: Option<i64>,
    /// The number of the person whose address was typed.
    email: u64,
    phone: Option<u64>,
}

struct World {
    erased: u64,
    named_phone: u64,
    named_orders: Vec<i64>,
    sent: Vec<Sent>,
}

impl World {
    fn new(service: &Service, seed: u64) -> Self {
        let dice = &mut Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut sent: Vec<Sent> = Vec::new();
        for nth in 0..14 {
            sent.push(order(seed, nth, dice));
        }
        for nth in 0..14_u64 {
            let paid = usize::try_from(nth).unwrap();
            if dice.one_in(4) || !sent[paid].is_readable || sent[paid].waits {
                continue;
            }
            let kind = dice.below(6);
            let made = payment(service, seed, nth, kind, Some((paid, &sent[paid])), dice);
            let is_followed = is_of_subscription(kind) && made.is_before;
            sent.push(made);
            if is_followed {
                let renewed = renewal(service, seed, nth, (paid, &sent[paid]), dice);
                sent.push(renewed);
            }
        }
        for nth in 20..28 {
            let kind = dice.below(6);
            sent.push(payment(service, seed, nth, kind, None, dice));
        }
        let orders = sent.iter().filter_map(|it| it.order.map(|order| order.id));
        let named_orders = orders.filter(|_| dice.one_in(5)).collect();
        World {
            erased: dice.below(PEOPLE),
            named_phone: dice.below(4),
            named_orders,
            sent,
        }
    }

    fn customer(&self) -> Value {
        let spelt = format!("PERSON{}Ä@EXAMPLE.com", self.erased);
        let phone = PHONES[usize::try_from(self.named_phone).unwrap()][0];
        json!({"id": account(self.erased), "email": spelt, "phone": phone})
    }

    fn request(&self, topic: &str, orders: &str) -> Delivery {
        let mut body = json!({"shop_id": 1, "shop_domain": SHOP, "customer": self.customer()});
        body[orders] = json!(self.named_orders);
        storefront(topic, body.to_string())
    }

    /// The obvious: whose an order is.
    fn is_theirs(&self, order: Order) -> bool {
        let is_named = self.named_orders.contains(&order.id);
        match (order.customer, account(self.erased)) {
            (Some(customer), Some(id)) => customer == id,
            (Some(_), None) => is_named,
            (None, _) => is_named || order.email == self.erased,
        }
    }

    fn is_erased(&self, sent: &Sent) -> bool {
        if let Some(order) = sent.order {
            return self.is_theirs(order);
        }
        let Some(pays) = sent.pays else { return false };
        match pays.order {
            Some(order) => self.sent[order].order.is_some_and(|it| self.is_theirs(it)),
            None => pays.email == self.erased || self.payers().contains(&pays.payer),
        }
    }

    /// Theirs, whatever address was typed.
    fn is_theirs_by_id(&self, order: Order) -> bool {
        match (order.customer, account(self.erased)) {
            (Some(customer), Some(id)) => customer == id,
            _ => self.named_orders.contains(&order.id),
        }
    }

    /// What was known to pay for an order, and the order.
    fn known_payments(&self) -> impl Iterator<Item = (Pays, Order)> {
        let known = self.sent.iter().filter(|it| it.is_known());
        known.filter_map(|it| {
            let pays = it.pays?;
            Some((pays, self.sent[pays.order?].order?))
        })
    }

    /// The payment provider's customers who paid for an order that is theirs by an id.
    fn payers(&self) -> BTreeSet<u64> {
        let paid = self.known_payments();
        let theirs = paid.filter(|(_, order)| self.is_theirs_by_id(*order));
        theirs.map(|(pays, _)| pays.payer).collect()
    }

    /// Whom else the request may mean, as far as was known.
    fn held(&self) -> (BTreeSet<i64>, BTreeSet<i64>) {
        let (mut customers, mut orders) = (BTreeSet::new(), BTreeSet::new());
        let payers = self.payers();
        let paid: BTreeSet<i64> = self
            .known_payments()
            .filter(|(pays, _)| payers.contains(&pays.payer))
            .map(|(_, order)| order.id)
            .collect();
        let known = self.sent.iter().filter(|it| it.is_known());
        for order in known.filter_map(|it| it.order) {
            let has_phone = self.named_phone != 3 && order.phone == Some(self.named_phone);
            let is_named = self.named_orders.contains(&order.id) || paid.contains(&order.id);
            if self.is_theirs(order) || !(has_phone || is_named || order.email == self.erased) {
                continue;
            }
            match order.customer {
                Some(customer) => customers.insert(customer),
                None => orders.insert(order.id),
            };
        }
        (customers, orders)
    }
}

fn order(seed: u64, nth: u64, dice: &mut Dice) -> Sent {
    let maker = dice.below(PEOPLE);
    let typed = if dice.one_in(4) {
        dice.below(PEOPLE)
    } else {
        maker
    };
    let customer = account(maker).filter(|_| !dice.one_in(4));
    let phone = (!dice.one_in(3)).then(|| dice.below(4));
    let spelling = phone.map(|phone| {
        PHONES[usize::try_from(phone).unwrap()][usize::try_from(dice.below(3)).unwrap()]
    });
    let word = format!("word{seed}order{nth}x");
    let id = i64::try_from(1000 + nth).unwrap();
    let is_readable = !dice.one_in(5);
    let is_before = !dice.one_in(3);
    let waits = is_readable && is_before && dice.one_in(5);
    let named = customer.map(|id| json!({"id": id, "email": format!("account{id}@example.com")}));
    let fields = json!({
        "email": email(typed, dice), "phone": spelling, "customer": named, "note": word,
        "shipping_address": {"first_name": word, "address1": "1 Street"},
        "note_attributes": [{"name": "pact_id", "value": format!("pact{nth}")}],
    });
    let mut body = with(body(id, 1, "paid"), &fields);
    if waits {
        body["name"] = json!("#stuck");
    }
    if !is_readable {
        body["order_id"] = json!(7);
        body["line_items"] = json!(word);
    }
    Sent {
        delivery: order_delivery("orders/create", &body).id(&format!("order-{nth}")),
        word,
        is_before,
        is_readable,
        waits,
        order: Some(Order {
            id,
            customer,
            email: typed,
            phone,
        }),
        pays: None,
    }
}

/// Kinds of payments that bring a subscription.
fn is_of_subscription(kind: u64) -> bool {
    kind == 3 || kind == 4
}

/// A payment of an order, whose payer has the order's address, or of no order.
fn payment(
    service: &Service,
    seed: u64,
    nth: u64,
    kind: u64,
    paid: Option<(usize, &Sent)>,
    dice: &mut Dice,
) -> Sent {
    let word = format!("word{seed}payment{nth}x");
    let of = paid.and_then(|(_, sent)| sent.order);
    let email_of = of.map_or_else(|| dice.below(PEOPLE), |order| order.email);
    let payer = if of.is_some() && !dice.one_in(4) {
        email_of
    } else {
        dice.below(PEOPLE)
    };
    let agreement = paid.map(|_| format!("pact{nth}"));
    let metadata = agreement
        .as_ref()
        .map_or(json!({}), |agreement| json!({"pact_id": agreement}));
    let address = email(email_of, dice);
    let customer = format!("cus_{payer}");
    let subscription = format!("sub_{nth}");
    let delivery = match kind {
        2 | 3 => {
            let mut fields = json!({
                "metadata": metadata, "customer": customer,
                "customer_details": {"email": address, "name": word}, "client_reference_id": word,
            });
            if is_of_subscription(kind) {
                fields["mode"] = json!("subscription");
                fields["subscription"] = json!(subscription);
            }
            let object = session(&format!("cs_{nth}"), "unpaid", 100, &fields);
            event(service, "checkout.session.completed", 1, &object)
        }
        4 => {
            let mut object = invoice(&format!("in_{nth}"), &subscription, 100, 30);
            object["customer"] = json!(customer);
            object["customer_email"] = json!(address);
            object["customer_name"] = json!(word);
            object["parent"]["subscription_details"]["metadata"] = metadata;
            event(service, "invoice.payment_succeeded", 1, &object)
        }
        _ => {
            let mut object = intent(&format!("pi_{nth}"), "succeeded", 100, agreement.as_deref());
            object["receipt_email"] = json!(address);
            object["customer"] = json!(customer);
            object["description"] = json!(word);
            if kind == 5 {
                object["amount"] = json!("none");
            }
            event(service, "payment_intent.succeeded", 1, &object)
        }
    };
    // A payment that comes before its order is whose address it has, until the order says so.
    let is_before = paid.map_or(!dice.one_in(3), |(_, order)| {
        order.is_before && !dice.one_in(3)
    });
    Sent {
        delivery,
        word,
        is_before,
        is_readable: kind != 5,
        waits: false,
        order: None,
        pays: Some(Pays {
            email: email_of,
            payer,
            order: paid.map(|(order, _)| order),
        }),
    }
}

/// A later invoice of the subscription of an order: it names the subscription and no agreement, and
/// another address.
fn renewal(
    service: &Service,
    seed: u64,
    nth: u64,
    (paid, of): (usize, &Sent),
    dice: &mut Dice,
) -> Sent {
    let word = format!("word{seed}renewal{nth}x");
    let payer = of.order.map_or(0, |order| order.email);
    let email_of = dice.below(PEOPLE);
    let mut object = invoice(&format!("in_renewal{nth}"), &format!("sub_{nth}"), 100, 60);
    object["customer"] = json!(null);
    object["customer_email"] = json!(email(email_of, dice));
    object["customer_name"] = json!(word);
    Sent {
        delivery: event(service, "invoice.payment_succeeded", 2, &object),
        word,
        is_before: !dice.one_in(2),
        // It brings no payer.
        is_readable: true,
        waits: false,
        order: None,
        pays: Some(Pays {
            email: email_of,
            payer: PEOPLE + payer,
            order: Some(paid),
        }),
    }
}

/// All that stands anywhere in the database, in small letters.
async fn everything(service: &Service) -> String {
    let sql = if is_distributed() {
        "select cast(table_name as text) as name, cast(column_name as text) as field,
                cast(case when data_type = 'bytea' then 1 else 0 end as bigint) as is_bytes
         from information_schema.columns where table_schema = current_schema()"
    } else {
        "select m.name as name, p.name as field, 0 as is_bytes
         from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table'"
    };
    let mut all = String::new();
    for row in service.db().query(sql).fetch_all().await.unwrap() {
        let (table, field): (String, String) =
            (row.get("name").unwrap(), row.get("field").unwrap());
        let is_bytes = row.get::<i64>("is_bytes").unwrap_or(0) == 1;
        let value = if is_bytes {
            format!("encode({field}, 'escape')")
        } else {
            format!("cast({field} as text)")
        };
        let sql = format!("select {value} as value from {table} where {field} is not null");
        for row in service
            .db()
            .query(statement(sql))
            .fetch_all()
            .await
            .unwrap()
        {
            all.push_str(
                &row.get::<String>("value")
                    .unwrap_or_default()
                    .to_lowercase(),
            );
            all.push('\n');
        }
    }
    all
}

/// In two waves: what was paid for is there before its payment.
async fn send(service: &Service, sent: impl Iterator<Item = &Sent>, stuck: i64) {
    let (orders, payments): (Vec<&Sent>, Vec<&Sent>) = sent.partition(|it| it.order.is_some());
    for wave in [orders, payments] {
        for sent in wave {
            post_all(service, std::slice::from_ref(&sent.delivery)).await;
        }
        settled(service, stuck).await;
    }
}

/// So many jobs wait, and nothing else is to be done.
async fn settled(service: &Service, stuck: i64) {
    eventually("all but those that wait are worked on", async || {
        service.jobs(State::Ready).await == service.scheduled().await + stuck
    })
    .await;
}

/// The database takes no order of this name.
async fn refuse_stuck_orders(service: &Service) {
    if is_distributed() {
        service
            .execute(
                "create function refuse() returns trigger language plpgsql as
                 'begin raise exception ''stuck''; end'",
            )
            .await;
        service
            .execute(
                "create trigger stuck before insert on orders for each row
                 when (new.name = '#stuck') execute function refuse()",
            )
            .await;
    } else {
        service
            .execute(
                "create trigger stuck before insert on orders for each row
                 when new.name = '#stuck' begin select raise(abort, 'stuck'); end",
            )
            .await;
    }
}

async fn take_stuck_orders(service: &Service) {
    let sql = if is_distributed() {
        "drop trigger stuck on orders"
    } else {
        "drop trigger stuck"
    };
    service.execute(sql).await;
    service.clock().advance(Duration::from_hours(2));
    settled(service, 0).await;
}

async fn asked(service: &Service, request: &Delivery, stuck: i64) -> RequestEntry {
    let id = posted(service, request).await;
    settled(service, stuck).await;
    entry(service, id).await
}

async fn lives(seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    let service = service()
        .setting("PRIVACY_EXPORT_URL", &url)
        .manual_clock()
        .start()
        .await;
    let world = World::new(&service, seed);
    refuse_stuck_orders(&service).await;
    let stuck = world.sent.iter().filter(|it| it.waits).count();
    let stuck = i64::try_from(stuck).unwrap();
    let before = world.sent.iter().filter(|it| it.is_before);
    send(&service, before, stuck).await;

    let request = asked(
        &service,
        &world.request("customers/data_request", "orders_requested"),
        stuck,
    )
    .await;
    let document = std::fs::read(document(folder.path(), request.id));
    let document = String::from_utf8(document.unwrap()).unwrap();
    for sent in world.sent.iter().filter(|it| it.is_before) {
        let is_exported = document.contains(&sent.word);
        assert_eq!(
            is_exported,
            world.is_erased(sent),
            "world {seed}: {} is exported",
            sent.word
        );
    }

    let request = asked(
        &service,
        &world.request("customers/redact", "orders_to_redact"),
        stuck,
    )
    .await;
    let (customers, orders) = world.held();
    let held = request.held.unwrap_or_default();
    let found = (held.customers.into_keys().collect(), held.orders);
    assert_eq!(found, (customers, orders), "world {seed}: what is held");
    let is_held = found != Default::default();
    assert_eq!(
        request.state,
        if is_held { "held" } else { "done" },
        "world {seed}"
    );
    let late = world.sent.iter().filter(|it| !it.is_before);
    send(&service, late, stuck).await;
    take_stuck_orders(&service).await;

    let all = everything(&service).await;
    for sent in &world.sent {
        let is_there = all.contains(&sent.word);
        assert_eq!(
            is_there,
            !world.is_erased(sent),
            "world {seed}: {} is there",
            sent.word
        );
    }
    for ((shop, id), order) in records::orders(service.db()).await {
        if shop != "shop.example" {
            continue;
        }
        let mut sent = world.sent.iter().filter_map(|it| it.order);
        let theirs = world.is_theirs(sent.find(|it| it.id == id).unwrap());
        let (email, address) = (order.contact.value.email, order.addresses.value.shipping);
        assert_eq!(
            (email.is_none(), address.is_none()),
            (theirs, theirs),
            "world {seed}: order {id}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn in_any_world_the_erased_are_gone_and_all_others_whole() {
    // Servers take ten times as long for a world.
    let usual = if is_distributed() { 2 } else { 10 };
    let given = environment("PRIVACY_WORLDS");
    let given = given.map(|text| text.parse().expect("PRIVACY_WORLDS is a number"));
    for seed in 1..=given.unwrap_or(usual) {
        lives(seed).await;
    }
}
