//! The page on which a person approves the login of a device.

use sandbox::{IDENTITY_CLIENT_ID, Sandbox};

use crate::support::device::{Device, clocked};
use crate::support::{client, press, sandbox};

fn url(sandbox: &Sandbox) -> String {
    format!("{}/login/device", sandbox.identity_url())
}

async fn visit(url: &str) -> (u16, String) {
    let page = client().get(url).send().await.unwrap();
    (page.status().as_u16(), page.text().await.unwrap())
}

/// Sends the page's form.
async fn send(sandbox: &Sandbox, form: &str) -> (u16, String) {
    let answer = press(&url(sandbox), form).await;
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn one_enters_the_code_chooses_who_signs_in_and_approves() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    let (status, page) = visit(&url(&sandbox)).await;
    assert_eq!(status, 200);
    assert!(page.contains(r#"name="user_code" value="""#), "{page}");
    let (status, page) = send(&sandbox, &format!("user_code={}", device.user_code)).await;
    assert_eq!(status, 200);
    for part in [
        &*device.user_code,
        "read:user",
        "user:email",
        r#"<option value="octavia">octavia, octavia@example.com</option>"#,
        r#"<option value="noah">noah, noah@example.com (not verified)</option>"#,
        r#"<option value="nemo">nemo, no e-mail address</option>"#,
        ">Approve<",
        ">Deny<",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert_eq!(device.poll().await["error"], "authorization_pending");
    let form = format!(
        "user_code={}&login=petra&decision=approve",
        device.user_code
    );
    let approved = press(&url(&sandbox), &form).await;
    assert_eq!(approved.status(), 303);
    let location = approved.headers()["Location"].to_str().unwrap();
    assert_eq!(location, "/identity/login/device/success");
    let (status, page) = visit(&format!("{}{location}", sandbox.url())).await;
    assert_eq!(status, 200);
    assert!(page.contains("The device is signed in"), "{page}");
    assert_eq!(device.poll_after(5).await["token_type"], "bearer");
    assert_eq!(sandbox.identity().tokens()[0].login, "petra");
}

#[tokio::test]
async fn one_denies_and_the_code_is_of_no_use() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    let form = format!("user_code={}&login=octavia&decision=deny", device.user_code);
    let denied = press(&url(&sandbox), &form).await;
    assert_eq!(denied.status(), 303);
    let location = denied.headers()["Location"].to_str().unwrap();
    let (_, page) = visit(&format!("{}{location}", sandbox.url())).await;
    assert!(page.contains("The device is not signed in"), "{page}");
    assert_eq!(device.poll().await["error"], "access_denied");
}

#[tokio::test]
async fn a_code_may_be_typed_in_any_way() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    let lower = device.user_code.to_lowercase();
    let (first, last) = lower.split_once('-').unwrap();
    for typed in [
        format!("{first}{last}"),
        format!("++{first}+-+{last}+"),
        format!("{first}%E2%80%93{last}"),
        lower.clone(),
    ] {
        let (status, page) = send(&sandbox, &format!("user_code={typed}")).await;
        assert_eq!(status, 200, "{typed}");
        assert!(page.contains(&device.user_code), "{page}");
    }
}

#[tokio::test]
async fn the_address_can_bring_the_code_along() {
    let sandbox = sandbox().await;
    let url = format!("{}?user_code=WDJB-MJHT", url(&sandbox));
    let (_, page) = visit(&url).await;
    assert!(page.contains(r#"value="WDJB-MJHT""#), "{page}");
    let (_, page) = visit(&url.replace("WDJB-MJHT", "%22%3E%3Cb%3E")).await;
    assert!(page.contains(r#"value="&#34;&#62;&#60;b&#62;""#), "{page}");
}

#[tokio::test]
async fn a_wrong_an_expired_and_a_used_code_are_distinguished() {
    let (sandbox, clock) = clocked().await;
    let (used, expired) = (
        Device::start(&sandbox, &clock).await,
        Device::start(&sandbox, &clock).await,
    );
    let open = Device::start(&sandbox, &clock).await;
    sandbox.identity().expire(&expired.user_code).unwrap();
    sandbox
        .identity()
        .approve(&used.user_code, "octavia")
        .unwrap();
    for (code, login, status, reported) in [
        ("", "octavia", 404, "There is no such code"),
        ("<b>", "octavia", 404, "There is no such code"),
        (&*expired.user_code, "octavia", 410, "This code has expired"),
        (
            &*used.user_code,
            "octavia",
            409,
            "This code was used already",
        ),
        (&*open.user_code, "nobody", 422, "There is no such user"),
    ] {
        for decision in ["", "approve", "deny"] {
            if login == "nobody" && decision != "approve" {
                continue;
            }
            let form = format!("user_code={code}&login={login}&decision={decision}");
            let (found, page) = send(&sandbox, &form).await;
            assert_eq!(found, status, "{form}");
            assert!(page.contains(reported) && page.contains("<form"), "{page}");
            assert!(!page.contains("<b>"), "{page}");
        }
    }
    assert_eq!(open.poll().await["error"], "authorization_pending");
    assert_eq!(used.poll().await["token_type"], "bearer");
}

#[tokio::test]
async fn it_runs_nothing_and_takes_no_forms_of_others() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    let answer = client().get(url(&sandbox)).send().await.unwrap();
    let policy = answer.headers()["Content-Security-Policy"]
        .to_str()
        .unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'self';"),
        "{policy}"
    );
    let page = answer.text().await.unwrap();
    assert!(page.contains(r#"name="viewport""#), "{page}");
    assert!(
        !page.contains("<script") && !page.contains("style="),
        "{page}"
    );
    let style = client()
        .get(format!("{}/page.css", sandbox.url()))
        .send()
        .await
        .unwrap();
    assert_eq!(style.status(), 200);
    assert!(page.contains(r#"href="/page.css""#), "{page}");
    let form = format!(
        "user_code={}&login=octavia&decision=approve",
        device.user_code
    );
    for site in ["cross-site", "same-site"] {
        let pressed = client()
            .post(url(&sandbox))
            .header("Sec-Fetch-Site", site)
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(form.clone());
        assert_eq!(pressed.send().await.unwrap().status(), 403);
    }
    // A device asks for its code and its token: no browser, so it says nothing of a site.
    let code = || {
        client()
            .post(format!("{}/code", url(&sandbox)))
            .form(&[("client_id", IDENTITY_CLIENT_ID)])
    };
    assert_eq!(code().send().await.unwrap().status(), 200);
    let foreign = code().header("Sec-Fetch-Site", "cross-site");
    assert_eq!(foreign.send().await.unwrap().status(), 403);
    assert_eq!(device.poll().await["error"], "authorization_pending");
}
