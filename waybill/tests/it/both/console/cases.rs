//! One case of each write of the console, of things that are there.

use std::time::Duration;

use domain::api_key::Role;
use domain::attention::{Condition, State as Attention};
use domain::job::{Queue, Source};
use domain::license::Tier;
use domain::pause::Target;
use operators::endpoints::WantedEndpoint;
use operators::licenses::{To, Wanted, When};
use store::jobs::Summary;
use store::{api_keys, attention, reconciliations};
use uuid::Uuid;

use super::writes::{by, choice, confirmed, job};
use crate::both::connections;
use crate::support::console::role;
use crate::support::operator::dead_orders;
use crate::support::{Service, requests};

/// A write as a page sends it.
pub(super) struct Case {
    /// Its path in the table of writes.
    pub path: &'static str,
    pub id: Option<Uuid>,
    pub fields: Vec<(&'static str, String)>,
}

impl Case {
    pub fn at(&self) -> String {
        let id = self.id.map_or_else(String::new, |id| id.to_string());
        let name = match self.path {
            "/attention/{name}/acknowledge" => "nothing_came",
            _ => "shop-b",
        };
        self.path.replace("{id}", &id).replace("{name}", name)
    }
}

/// One case of each write that there is, of things that are there.
pub(super) async fn cases(service: &Service) -> Vec<Case> {
    dead_orders(service, 4).await;
    let waits = crate::support::delivery::order("orders/create", 9).id("waits");
    crate::support::order::post_all(service, &[waits]).await;
    let (one, other, waits) = (
        job(service, "w-1").await,
        job(service, "w-2").await,
        job(service, "waits").await,
    );
    service
        .execute(
            "update jobs set state = 'done'
             where id in (select id from deliveries where external_id = 'w-3')",
        )
        .await;
    let known = job(service, "w-3").await;
    let of_job = |path, job: &Summary| Case {
        path,
        id: Some(job.id),
        fields: vec![("seen", job.finished_at.unwrap_or(job.run_at).0.to_string())],
    };
    let of_chosen = |path, job: &Summary| Case {
        path,
        id: None,
        fields: vec![
            choice(job),
            ("id", service.clock().id().to_string()),
            ("sure", "yes".to_owned()),
        ],
    };
    service.clock().advance(Duration::from_mins(1));
    let now = service.clock().now();
    let of_dead = |path| Case {
        path,
        id: None,
        fields: vec![
            ("kind", "orders/none".to_owned()),
            ("until", now.0.to_string()),
            ("rate", "50".to_owned()),
            ("id", service.clock().id().to_string()),
        ],
    };
    let mut all = vec![
        of_job("/jobs/{id}/run-now", &waits),
        of_chosen("/dead/requeue", &one),
        of_chosen("/dead/discard", &other),
        of_chosen("/jobs/requeue", &known),
        Case {
            path: "/jobs/{id}/field",
            id: Some(waits.id),
            fields: vec![("path", "/id".to_owned()), ("reason", "fault".to_owned())],
        },
        of_dead("/dead/all/requeue"),
        of_dead("/dead/all/discard"),
    ];
    all.push(Case {
        path: "/keys/create",
        id: None,
        fields: vec![
            ("id", service.clock().id().to_string()),
            ("name", "bo".to_owned()),
            ("scope-console:reader", "yes".to_owned()),
        ],
    });
    let mut tx = service.db().begin().await.unwrap();
    let (id, clock) = (service.clock().id(), service.clock());
    let rights = role(Role::Reader);
    let key = api_keys::create(&mut tx, clock, id, "cy", None, &rights).await;
    tx.commit().await.unwrap();
    all.push(Case {
        path: "/keys/{id}/revoke",
        id: Some(key.unwrap().id),
        fields: Vec::new(),
    });
    all.push(Case {
        path: "/licenses/grant",
        id: None,
        fields: vec![
            ("now", now.0.to_string()),
            ("user", "id:77".to_owned()),
            ("tier", "pro".to_owned()),
            ("days", "30".to_owned()),
        ],
    });
    for path in [
        "/licenses/{id}/suspend",
        "/licenses/{id}/resume",
        "/licenses/{id}/revoke",
    ] {
        let id = licence(service, all.len()).await;
        if path == "/licenses/{id}/resume" {
            let when = When {
                now,
                grace: Duration::ZERO,
            };
            let suspend = operators::licenses::Change::Suspend;
            let by = by(service);
            let done = operators::licenses::change(service.db(), by, id, suspend, when).await;
            assert!(done.is_ok());
        }
        all.push(Case {
            path,
            id: Some(id),
            fields: Vec::new(),
        });
    }
    let mut added = service.clock().id();
    all.push(Case {
        path: "/endpoints/add",
        id: None,
        fields: vec![
            ("id", added.to_string()),
            ("url", "https://shop.example/hooks".to_owned()),
            ("type", "order.*".to_owned()),
        ],
    });
    all.push(Case {
        path: "/connections/add",
        id: None,
        fields: vec![
            ("name", "shop-c".to_owned()),
            ("provider", "generic".to_owned()),
            ("shop", "c.example".to_owned()),
            ("secret", "the signing secret of shop c".to_owned()),
        ],
    });
    let new = connections::storefront("shop-b", connections::B, connections::SECRET_B);
    connections::add(service, [new]).await;
    for path in [
        "/connections/{name}/pause",
        "/connections/{name}/resume",
        "/connections/{name}/change",
        "/connections/{name}/rotate",
        "/connections/{name}/remove",
    ] {
        all.push(Case {
            path,
            id: None,
            fields: vec![
                ("id", service.clock().id().to_string()),
                ("secret", "another signing secret of shop b".to_owned()),
                ("display-name", "Shop B".to_owned()),
            ],
        });
    }
    for path in [
        "/endpoints/{id}/test",
        "/endpoints/{id}/pause",
        "/endpoints/{id}/resume",
        "/endpoints/{id}/rotate",
        "/endpoints/{id}/remove",
    ] {
        if path != "/endpoints/{id}/resume" {
            added = endpoint(service).await;
        }
        all.push(Case {
            path,
            id: Some(added),
            fields: vec![("seen", "0".to_owned())],
        });
    }
    all.push(Case {
        path: "/privacy/request",
        id: None,
        fields: vec![
            ("id", service.clock().id().to_string()),
            ("shop", "shop.example".to_owned()),
            ("customer", "77".to_owned()),
            ("yes", "yes".to_owned()),
        ],
    });
    for (path, topic, state, seed) in [
        (
            "/privacy/{id}/retry",
            "customers/data_request",
            "failed",
            31,
        ),
        ("/privacy/{id}/cancel", "shop/redact", "held", 32),
        ("/privacy/{id}/confirm", "shop/redact", "held", 33),
    ] {
        let id = requests::posted(service, &requests::request(topic, seed)).await;
        let mut tx = service.db().begin().await.unwrap();
        tx.query("update privacy_requests set state = $1, held_until = null where id = $2")
            .bind(state)
            .bind(id)
            .execute()
            .await
            .unwrap();
        if path == "/privacy/{id}/confirm" {
            tx.query("update privacy_requests set repeats = id where id = $1")
                .bind(id)
                .execute()
                .await
                .unwrap();
        }
        tx.commit().await.unwrap();
        all.push(Case {
            path,
            id: Some(id),
            fields: Vec::new(),
        });
    }
    let mut tx = service.db().begin().await.unwrap();
    let (condition, state) = (Condition::NothingCame, Attention::Begun);
    let begun = attention::insert(&mut tx, condition, "storefront a", state, now);
    assert!(begun.await.unwrap());
    tx.commit().await.unwrap();
    all.push(Case {
        path: "/attention/{name}/acknowledge",
        id: None,
        fields: Vec::new(),
    });
    all.push(Case {
        path: "/pauses/begin",
        id: None,
        fields: vec![
            ("id", service.clock().id().to_string()),
            ("scope", "provider".to_owned()),
            ("name", "mail".to_owned()),
            ("for", "1h".to_owned()),
        ],
    });
    all.push(Case {
        path: "/pauses/{id}/end",
        id: Some(paused(service).await),
        fields: Vec::new(),
    });
    let payments = reconciliations::Target {
        source: Source::Payment,
        connection: "default".to_owned(),
        shop: String::new(),
    };
    let now = service.clock().now();
    let next = now.plus(Duration::from_hours(1));
    let targets = [payments];
    let begun = reconciliations::begin(service.db(), &targets, now, next);
    begun.await.unwrap();
    all.push(Case {
        path: "/reconcile/ask",
        id: None,
        fields: Vec::new(),
    });
    let topic = "customers/data_request";
    let held = requests::posted(service, &requests::request(topic, 34)).await;
    let mut tx = service.db().begin().await.unwrap();
    tx.query("update privacy_requests set state = 'held', held = $1 where id = $2")
        .bind(r#"{"customers":{"77":1},"orders":[],"is_cut":false}"#)
        .bind(held)
        .execute()
        .await
        .unwrap();
    tx.commit().await.unwrap();
    all.push(Case {
        path: "/privacy/{id}/decide",
        id: Some(held),
        fields: vec![("customer-77", "include".to_owned())],
    });
    let done = requests::posted(service, &requests::request(topic, 35)).await;
    let folder = service.backend.folder().join("exports");
    let ends = now.plus(Duration::from_hours(24));
    requests::export(service, &folder, done, "{}", ends).await;
    all.push(Case {
        path: "/privacy/{id}/export",
        id: Some(done),
        fields: Vec::new(),
    });
    // The clock stands, so no runner begins these.
    for (path, state) in [
        ("/operations/{id}/stop", "running"),
        ("/operations/{id}/undo", "waiting"),
        // The last, because what is resumed goes on by itself.
        ("/operations/{id}/resume", "stopped"),
    ] {
        let id = confirmed(service, "orders/none", 50).await.id;
        let begins_at = if state == "stopped" {
            now
        } else {
            now.plus(Duration::from_hours(1))
        };
        let mut tx = service.db().begin().await.unwrap();
        tx.query("update bulk_operations set state = $1, begins_at = $2 where id = $3")
            .bind(state)
            .bind(begins_at.0)
            .bind(id)
            .execute()
            .await
            .unwrap();
        tx.commit().await.unwrap();
        all.push(Case {
            path,
            id: Some(id),
            fields: Vec::new(),
        });
    }
    all
}

/// An endpoint that nobody answers at.
pub(super) async fn endpoint(service: &Service) -> Uuid {
    let by = by(service);
    let new = WantedEndpoint {
        id: service.clock().id(),
        url: "https://nobody.invalid/hooks",
        types: Vec::new(),
        since: None,
    };
    let allowed = &service.parts.config.endpoints;
    let added = operators::endpoints::add(service.db(), by, service.clock(), allowed, new).await;
    added.unwrap().0.id
}

/// The licence of an account of its own; its id.
pub(super) async fn licence(service: &Service, account: usize) -> Uuid {
    let user = format!("id:{}", 1000 + account).parse().unwrap();
    let wanted = Wanted {
        provider: None,
        to: To::User(&user),
        tier: Tier::Pro,
        expires_at: None,
        subscription: None,
        item: None,
    };
    let when = When {
        now: service.clock().now(),
        grace: Duration::ZERO,
    };
    let (db, clock) = (service.db(), service.clock());
    let granted = operators::licenses::grant(db, by(service), clock, &wanted, when).await;
    granted.unwrap_or_else(|why| panic!("{why}")).id
}

/// A pause of the queue of payments; its id.
async fn paused(service: &Service) -> Uuid {
    let by = by(service);
    let (id, target) = (service.clock().id(), Target::Queue(Queue::Payments));
    let until = by.now.plus(Duration::from_hours(1));
    let begun = operators::pauses::begin(service.db(), by, id, target, until);
    assert!(begun.await.unwrap());
    id
}
