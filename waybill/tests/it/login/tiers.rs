//! Which tier a person has now: the answer of the login, the grace of subscriptions, and the table
//! of the tiers' features and prices.

use std::time::Duration;

use domain::license::{OrgId, Tier};
use serde_json::{Value, json};
use store::licenses::{self, Grant, Owner};
use store::orgs;
use store::users::{self, Named};

use crate::support::login::{Desk, desk, desk_with, read};

const HOUR: Duration = Duration::from_hours(1);

/// Grants someone a tier for an hour.
async fn grant(desk: &Desk, login: &str, tier: Tier, subscription_id: Option<&str>) {
    let mut tx = desk.service.db().begin().await.unwrap();
    let named = Named::Login(login.to_owned());
    let user = users::find_or_invite(&mut tx, &desk.clock, &named).await;
    let grant = Grant {
        tier,
        owner: Owner::User(user.unwrap().id),
        expires_at: Some(desk.clock.now().plus(HOUR)),
        subscription_id,
        subscription_item: None,
    };
    licenses::grant(&mut tx, &desk.clock, &grant).await.unwrap();
    tx.commit().await.unwrap();
}

/// Grants someone's organization enterprise for an hour.
async fn grant_org(desk: &Desk, login: &str, org: &str) -> OrgId {
    let mut tx = desk.service.db().begin().await.unwrap();
    let named = Named::Login(login.to_owned());
    let user = users::find_or_invite(&mut tx, &desk.clock, &named).await;
    let org = orgs::create(&mut tx, &desk.clock, org, None).await.unwrap();
    let org = org.unwrap().id;
    let now = desk.clock.now();
    let added = orgs::add_member(&mut tx, org, user.unwrap().id, now).await;
    assert!(added.unwrap());
    let grant = Grant {
        tier: Tier::Enterprise,
        owner: Owner::Org(org),
        expires_at: Some(now.plus(HOUR)),
        subscription_id: None,
        subscription_item: None,
    };
    licenses::grant(&mut tx, &desk.clock, &grant).await.unwrap();
    tx.commit().await.unwrap();
    org
}

/// What a login says of the tier.
async fn logged_in(desk: &Desk, login: &str) -> (Value, Value) {
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, login).unwrap();
    let answer = desk.poll(&device_code).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    (answer.body["tier"].clone(), answer.body["org_name"].clone())
}

/// What validation says of it.
async fn validated(desk: &Desk, token: &str) -> (Value, Value, Value) {
    let answer = desk.validate(token).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let reported = |name: &str| answer.body[name].clone();
    (reported("tier"), reported("status"), reported("org_name"))
}

#[tokio::test]
async fn a_login_says_the_tier_that_may_be_used_now() {
    let desk = desk().await;
    let token = desk.log_in("octavia").await;
    grant_org(&desk, "octavia", "Acme").await;
    desk.pass(10);
    let now = (json!("enterprise"), json!("Acme"));
    assert_eq!(logged_in(&desk, "octavia").await, now);
    desk.pass(3600);
    let ended = (json!("enterprise"), json!("expired"), json!("Acme"));
    assert_eq!(validated(&desk, &token).await, ended);
    let now = (json!("free"), Value::Null);
    assert_eq!(logged_in(&desk, "octavia").await, now);
    // A lower one that is active is worth more.
    grant(&desk, "octavia", Tier::Alpha, None).await;
    desk.pass(10);
    let now = (json!("alpha"), Value::Null);
    assert_eq!(logged_in(&desk, "octavia").await, now);
    desk.service
        .execute("update licenses set status = 'suspended'")
        .await;
    desk.pass(10);
    let now = (json!("free"), Value::Null);
    assert_eq!(logged_in(&desk, "octavia").await, now);
    desk.stop().await;
}

#[tokio::test]
async fn a_subscriptions_licence_stays_active_for_three_days_after_its_end_and_no_other() {
    let desk = desk().await;
    let payer = desk.log_in("octavia").await;
    let other = desk.log_in("petra").await;
    grant(&desk, "octavia", Tier::Pro, Some("sub_1")).await;
    grant(&desk, "petra", Tier::Pro, None).await;
    let pro = |status: &str| (json!("pro"), json!(status), Value::Null);
    desk.pass(3600);
    assert_eq!(validated(&desk, &payer).await, pro("active"));
    assert_eq!(validated(&desk, &other).await, pro("expired"));
    desk.pass(3 * 86_400 - 11);
    assert_eq!(validated(&desk, &payer).await, pro("active"));
    desk.pass(11);
    assert_eq!(validated(&desk, &payer).await, pro("expired"));
    desk.stop().await;
}

#[tokio::test]
async fn the_grace_is_as_long_as_it_is_set() {
    let desk = desk_with(|options| options.setting("LICENSE_GRACE_DAYS", "0")).await;
    let payer = desk.log_in("octavia").await;
    grant(&desk, "octavia", Tier::Pro, Some("sub_1")).await;
    desk.pass(3600);
    let ended = (json!("pro"), json!("expired"), Value::Null);
    assert_eq!(validated(&desk, &payer).await, ended);
    desk.stop().await;
}

#[tokio::test]
async fn the_templates_come_with_what_each_tier_has_and_costs() {
    let desk = desk().await;
    let token = desk.log_in("octavia").await;
    let request = desk.service.get("/templates/list").bearer_auth(&token);
    let answer = read(request.send().await.unwrap()).await;
    let tiers = answer.body["tiers"].as_array().unwrap();
    let names: Vec<&str> = tiers
        .iter()
        .map(|it| it["tier"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["free", "alpha", "pro", "enterprise"]);
    assert_eq!(
        tiers[1],
        json!({
            "tier": "alpha", "rank": 2, "max_users": 5, "max_orgs": 1, "price": "invite-only",
            "features": ["All templates", "priority support", "alpha features"],
        })
    );
    assert_eq!(tiers[3]["max_users"], Value::Null);
    desk.stop().await;
}
