//! What needs a person: that each condition is found, and what operators do with it.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::attention::Condition;
use domain::job::{Queue, Source};
use domain::time::Timestamp;
use operators::attention::look;
use operators::endpoints::WantedEndpoint;
use store::audit::By;
use uuid::Uuid;
use workers::attention::Watch;

use crate::support::job;
use crate::support::operator::{items, refused, said};
use crate::support::smtp::{Received, Reply, SmtpServer};
use crate::support::{Options, START, Service, service};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: i64 = 3_600_000;

fn watched(server: &SmtpServer) -> Options {
    service()
        .without_workers()
        .setting("SMTP_URL", &server.url())
        .setting("MAIL_FROM", "shop@shop.example")
        .setting("OPERATORS_MAIL", "ops@shop.example")
}

/// A dead job of this kind.
async fn dies(service: &Service, kind: &str) {
    let id = service.clock().id();
    let now = service.clock().now();
    let new = job::ready(id, Queue::Payments, Source::Internal, kind, now);
    job::insert(service.db(), &[new]).await;
    let mut tx = service.db().begin().await.unwrap();
    let dead = "update jobs set state = 'dead', finished_at = run_at where id = $1";
    tx.query(dead).bind(id).execute().await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn after_a_day_without_a_mail_server_one_mail_says_what_is_still_true() {
    let server = SmtpServer::start().await;
    let service = watched(&server).manual_clock().start().await;
    server.at("MAIL", Reply::Code(451));
    let mut watch = Watch::new(service.parts.clone());
    dies(&service, "refunds/issue").await;
    dies(&service, "payments/retry").await;
    for quarter in 0..24 * 4 {
        if quarter == 4 {
            service
                .execute("update jobs set state = 'done' where kind = 'refunds/issue'")
                .await;
        }
        watch.round().await.unwrap();
        service.clock().advance(15 * MINUTE);
    }
    server.be_kind();
    for _ in 0..10 {
        watch.round().await.unwrap();
        service.clock().advance(MINUTE);
    }
    let mails = server.received();
    assert_eq!(mails.len(), 1, "{mails:?}");
    let text = mails[0].body();
    assert!(text.contains("A payments/retry job is dead"), "{text}");
    assert!(!text.contains("refunds/issue"), "{text}");
    service.stop().await;
}

#[tokio::test]
async fn nobody_is_notified_of_what_is_silenced_or_acknowledged_before_it_is_over() {
    let server = SmtpServer::start().await;
    let service = watched(&server).start().await;
    let mut watch = Watch::new(service.parts.clone());
    let silence = ["pauses", "begin", "condition", "jobs_dead", "--for", "4h"];
    said(&service, &silence).await;
    dies(&service, "refunds/issue").await;
    watch.round().await.unwrap();
    assert!(server.received().is_empty());
    said(&service, &["pauses", "end", "condition", "jobs_dead"]).await;
    // Somebody knows before the mail goes out.
    server.at("MAIL", Reply::Code(451));
    watch.round().await.unwrap();
    server.be_kind();
    let acknowledge = ["attention", "acknowledge", "jobs_dead", "--by", "ann"];
    said(&service, &acknowledge).await;
    let (_, again) = refused(&service, &acknowledge).await;
    assert!(again.contains("waybill attention list"), "{again}");
    let listed = items(&service, &["attention", "list"]).await;
    assert_eq!(listed[0]["condition"], "jobs_dead");
    assert_eq!(listed[0]["about"], "refunds/issue");
    assert_eq!(listed[0]["acknowledged_by"], "operator:ann");
    let mut watch = Watch::new(service.parts.clone());
    service.execute("delete from leases").await;
    watch.round().await.unwrap();
    assert!(server.received().is_empty());
    let unknown = ["pauses", "begin", "condition", "down"];
    let (_, unknown) = refused(&service, &unknown).await;
    assert!(unknown.contains("no such condition"), "{unknown}");
    service.stop().await;
}

/// Deliveries of a source, one each minute up to this time.
async fn came(service: &Service, source: Source, until: i64, minutes: i64) {
    let new = |minute: i64| {
        let at = Timestamp(until - minute * 60_000);
        let id = service.clock().id_at(at);
        job::ready(id, Queue::Orders, source, "orders/create", at)
    };
    let all: Vec<_> = (1..=minutes).map(new).collect();
    job::insert(service.db(), &all).await;
    let done = "update jobs set state = 'done', finished_at = run_at where state = 'ready'";
    service.execute(done).await;
}

/// An open request of this topic in this state, whose deadline is tomorrow.
async fn request(service: &Service, number: u128, topic: &str, state: &str) -> String {
    let id = Uuid::from_u128(number);
    let mut tx = service.db().begin().await.unwrap();
    tx.query(
        "insert into privacy_requests (id, topic, shop, body_key, state, received_at, due_at)
         values ($1, $2, 'shop.example', $1, $3, $4, $5)",
    )
    .bind(id)
    .bind(topic)
    .bind(state)
    .bind(START.0)
    .bind(START.0 + 24 * HOUR)
    .execute()
    .await
    .unwrap();
    tx.commit().await.unwrap();
    id.to_string()
}

#[tokio::test]
async fn of_each_condition_that_is_made_on_purpose_operators_are_notified_once_by_three_replicas() {
    use Condition as It;

    let server = SmtpServer::start().await;
    let service = watched(&server).manual_clock().start().await;
    let (db, config) = (service.db(), &service.parts.config);
    let all = look(db, config, &[], START).await.unwrap();
    assert!(all.is_empty(), "{all:?}");
    // The storefront sent in this hour a week ago and yesterday, and nothing since; the payment provider has sent little.
    for ago in [24, 7 * 24] {
        came(&service, Source::Storefront, START.0 - ago * HOUR, 50).await;
        came(&service, Source::Payment, START.0 - ago * HOUR, 10).await;
    }
    dies(&service, "refunds/issue").await;
    let (late, sweep) = (START.minus(6 * MINUTE), "fulfillments/request");
    let late = job::ready(
        service.clock().id(),
        Queue::Orders,
        Source::Internal,
        sweep,
        late,
    );
    let id = service.clock().id();
    let noted = job::ready(
        id,
        Queue::Payments,
        Source::Payment,
        "payment_intent.succeeded",
        START,
    );
    job::insert(db, &[late, noted]).await;
    for statement in [
        "update jobs set state = 'done', finished_at = run_at, last_error = 'it is of the test mode'
         where kind = 'payment_intent.succeeded'",
        "insert into refused_deliveries
             (hour_at, source, connection, profile, reason, signature, header, advice, status, deliveries,
              first_at, last_at, headers)
         values (1800000000000, 'payment', '', 'generic', 'rate', '', '', 'PAYMENT_RATE_PER_SECOND', 429, 3,
                 1800000000000, 1800000000000, ''),
                (1800000000000, 'storefront', '', 'generic', 'signature', 'mismatch', '', '', 401, 70,
                 1800000000000, 1800000000000, '')",
        "insert into shapes (source, shop, kind, member, state, deliveries, first_at, last_at)
         values ('storefront', 'shop.example', 'orders/paid', 'total_price', 'missing', 1, 1800000000000, 1800000000000)",
        "insert into orders (shop, id, listed_at, state, is_paid, held, held_minor, currency, record,
                             created_at, updated_at)
         values ('shop.example', 41, 0, 'initiated', 1, 'disputed', 500, 'EUR', '{}', 0, 0),
                ('shop.example', 42, 0, 'cancelled', 1, null, null, 'EUR', '{}', 0, 0)",
        "insert into refunds (shop, order_id, payment_id, state, amount_minor, currency, created_at, updated_at)
         values ('shop.example', 42, 'pi_1', 'failed', 700, 'EUR', 0, 0)",
    ] {
        service.execute(statement).await;
    }
    let endpoint = WantedEndpoint {
        id: service.clock().id(),
        url: "https://shop.example/hooks",
        types: Vec::new(),
        since: None,
    };
    let by = By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: START,
    };
    let endpoint_id = endpoint.id.to_string();
    let added = operators::endpoints::add(db, by, service.clock(), &config.endpoints, endpoint);
    added.await.unwrap();
    service
        .execute("update endpoints set state = 'failing'")
        .await;
    let failed = request(&service, 21, "customers/redact", "failed").await;
    let held = request(&service, 22, "customers/data_request", "held").await;
    let erased = request(&service, 23, "shop/redact", "held").await;
    let all = look(db, config, &[], START).await.unwrap();
    let seen = all.iter().map(|it| (it.condition, it.about.as_str()));
    let expected = BTreeSet::from([
        (It::JobsDead, "refunds/issue"),
        (It::QueueStandsStill, "orders"),
        (It::NothingCame, "storefront"),
        (It::DeliveriesOverRate, "payment"),
        (It::SignaturesRefused, "storefront"),
        (It::DeliveriesAllRefused, "storefront"),
        (It::DeliveriesNotUnderstood, "payment"),
        (It::DeliveriesChanged, "orders/paid total_price"),
        (It::BackupOld, ""),
        (It::PaymentDisputed, "41"),
        (It::RefundFailed, "42"),
        (It::EndpointPaused, &endpoint_id),
        (It::WebhooksNotSent, ""),
        (It::PrivacyRequestFailed, &failed),
        (It::PrivacyRequestHeld, &held),
        (It::ShopErasureNear, &erased),
        (It::PrivacyDeadlineNear, ""),
        (It::PrivacyDeadlinePressing, ""),
    ]);
    assert_eq!(seen.collect::<BTreeSet<_>>(), expected);

    let clock = service.clock().clone();
    let second = watched(&server).clock(&clock).start_beside(&service).await;
    let third = watched(&server).clock(&clock).start_beside(&service).await;
    let mut watches = [&service, &second, &third].map(|it| Watch::new(it.parts.clone()));
    // Those that must be seen for some time begin then.
    for _ in 0..8 {
        for watch in &mut watches {
            watch.round().await.unwrap();
            watch.hand_over().await;
        }
        clock.advance(MINUTE);
    }
    let mails: Vec<String> = server.received().iter().map(Received::body).collect();
    for (condition, about) in &expected {
        let sentence = format!("- {} (", condition.summary(about));
        let times = mails.iter().map(|mail| mail.matches(&sentence).count());
        assert_eq!(times.sum::<usize>(), 1, "{condition} {about}: {mails:#?}");
    }
    let begun = "select count(*) as n from attention where state = 'begun'";
    let all = i64::try_from(expected.len()).unwrap();
    assert_eq!(service.count(begun).await, all);
    let events = "select count(*) as n from events where kind = 'operator.attention'";
    assert_eq!(service.count(events).await, all);

    // All of it is over, but for the deliveries of before.
    for table in [
        "job_attempts",
        "jobs",
        "deliveries",
        "refused_deliveries",
        "refunds",
        "orders",
        "shapes",
        "outgoing_webhooks",
        "endpoints",
        "privacy_requests",
    ] {
        let mut tx = db.begin().await.unwrap();
        let delete = format!("delete from {table}");
        tx.query(Box::leak(delete.into_boxed_str()))
            .execute()
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
    came(&service, Source::Storefront, clock.now().0, 1).await;
    let before = server.received().len();
    for _ in 0..12 {
        for watch in &mut watches {
            watch.round().await.unwrap();
            watch.hand_over().await;
        }
        clock.advance(MINUTE);
    }
    let mails = server.received();
    let over: Vec<String> = mails[before..].iter().map(Received::body).collect();
    for (condition, about) in &expected {
        let sentence = format!("- {} (", condition.summary(about));
        let times = over.iter().map(|mail| mail.matches(&sentence).count());
        assert_eq!(times.sum::<usize>(), 1, "{condition} {about}: {over:#?}");
    }
    assert_eq!(
        service.count("select count(*) as n from attention").await,
        0
    );
    third.stop().await;
    second.stop().await;
    service.stop().await;
}
