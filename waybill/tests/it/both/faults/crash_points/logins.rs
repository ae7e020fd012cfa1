//! A device login. What the provider gives only once may be lost with the process that got it; then the
//! person logs in anew, and nothing of the lost login is left that anybody could use.

use std::time::Duration;

use reqwest::Response;
use sandbox::{Fault, LoginRules, Route};
use serde_json::Value;

use super::table::{Area, Target, targets};
use super::world::World;
use crate::support::pause;
use crate::support::storm::count;

/// Posts until there is an answer other than that it came too early; its status and body.
async fn post(port: u16, path: &str, form: &[(&str, &str)]) -> (u16, Value) {
    let client = reqwest::Client::new();
    loop {
        let url = format!("http://127.0.0.1:{port}{path}");
        let answer = client.post(url).form(form).send().await;
        if let Ok(answer) = answer {
            let status = answer.status().as_u16();
            if !matches!(status, 429 | 503) {
                return (status, body(answer).await);
            }
        }
        pause(Duration::from_millis(100)).await;
    }
}

async fn body(answer: Response) -> Value {
    let text = answer.text().await.unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Begins a login; its device code and user code.
async fn begin(port: u16) -> (String, String) {
    let (status, body) = post(port, "/auth/device/code", &[]).await;
    assert_eq!(status, 200, "{body}");
    let text = |name: &str| body[name].as_str().unwrap().to_owned();
    (text("device_code"), text("user_code"))
}

async fn poll(port: u16, device_code: &str) -> (u16, Value) {
    let grant = providers::identity::GRANT_TYPE;
    let form = [("device_code", device_code), ("grant_type", grant)];
    post(port, "/auth/device/token", &form).await
}

/// Whether the login is one that the provider ends in this way, so that the point is reached.
enum Way {
    Approved,
    Waiting,
    Refused,
}

fn way(target: &Target) -> Way {
    match target.of.as_str() {
        "store::device_codes::end_turn" => Way::Waiting,
        "store::device_code_requests::take_back" => Way::Refused,
        _ => Way::Approved,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_whose_process_dies_goes_on_or_begins_anew() {
    let rounds = targets(Area::Logins);
    let mut world = World::new(
        Area::Logins,
        &[("AUTH_DEVICE_CODES_PER_15_MINUTES", "1000")],
    )
    .await;
    // Polls may come at any time.
    world.sandbox.identity().set_rules(LoginRules {
        interval: Duration::ZERO,
        ..LoginRules::default()
    });
    let port = world.port;
    let (mut lost, mut kept) = (0, 0);
    for target in &rounds {
        let sandbox = world.sandbox.identity().clone();
        if target.of == "store::users::save_alone" {
            world.change("delete from users").await;
        }
        let way = way(target);
        let (codes, known) = tokio::sync::watch::channel(None);
        world
            .crash(target, async {
                if matches!(way, Way::Refused) {
                    sandbox
                        .fault_injector(Route::DeviceCode)
                        .fail(Fault::Status(500));
                }
                let (device_code, user_code) = begin(port).await;
                codes.send_replace(Some((device_code.clone(), user_code.clone())));
                if matches!(way, Way::Approved) {
                    sandbox.approve(&user_code, "octavia").unwrap();
                }
                poll(port, &device_code).await;
            })
            .await;
        world
            .sandbox
            .identity()
            .fault_injector(Route::DeviceCode)
            .clear_faults();
        // The turn of the dead process runs out, and the provider's interval passes.
        world
            .change("update device_codes set next_poll_at = 0")
            .await;
        let mut process = world.start("");
        world.is_ready().await;
        let begun = known.borrow().clone();
        let status = match (begun, way) {
            (Some((device_code, user_code)), Way::Waiting) => {
                world
                    .sandbox
                    .identity()
                    .approve(&user_code, "octavia")
                    .unwrap();
                Some(ends(&world, &device_code).await)
            }
            (Some((device_code, _)), _) => Some(ends(&world, &device_code).await),
            (None, _) => None,
        };
        if status == Some(200) {
            kept += 1;
        } else {
            lost += 1;
            let (device_code, user_code) = begin(port).await;
            let approved = world.sandbox.identity().approve(&user_code, "octavia");
            approved.unwrap();
            assert_eq!(poll(port, &device_code).await.0, 200, "{}", target.name);
        }
        process.kill();
    }
    assert!(
        kept > 0 && lost > 0,
        "{kept} logins went on, {lost} began anew"
    );
    let _process = world.finish().await;
    let users = "select count(*) as n from users";
    assert_eq!(count(&world.db, users).await, 1, "one person");
    world.db.close().await;
}

/// Polls until the login has ended; its last status.
async fn ends(world: &World, device_code: &str) -> u16 {
    loop {
        let (status, body) = poll(world.port, device_code).await;
        if status != 428 {
            assert!([200, 404, 410].contains(&status), "{status}: {body}");
            return status;
        }
        world
            .change("update device_codes set next_poll_at = 0")
            .await;
    }
}
