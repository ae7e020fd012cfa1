//! A page on the Internet whose domain name resolves to this machine cannot use the sandbox.

use crate::support::{client, sandbox};

#[tokio::test]
async fn a_request_for_another_host_is_refused() {
    let sandbox = sandbox().await;
    let url = sandbox.url().to_owned();
    let port = url.rsplit(':').next().unwrap();
    for host in [
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LOCALHOST:{port}"),
        format!("shop.localhost:{port}"),
        format!("[::1]:{port}"),
        format!("127.0.0.9:{port}"),
    ] {
        let asked = client().get(&url).header("Host", &host).send().await;
        assert_eq!(asked.unwrap().status(), 200, "{host}");
    }
    for host in [
        "attacker.example".to_owned(),
        format!("attacker.example:{port}"),
        format!("127.0.0.1.attacker.example:{port}"),
        format!("localhost.attacker.example:{port}"),
        format!("192.0.2.7:{port}"),
        "127.0.0.1@attacker.example".to_owned(),
        String::new(),
    ] {
        for path in [
            "/",
            "/storefront/orders/1/fulfillment_orders.json",
            "/payment/dashboard",
        ] {
            let asked = client().get(format!("{url}{path}")).header("Host", &host);
            let answer = asked.send().await.unwrap();
            assert_eq!(answer.status(), 421, "{host} {path}");
            let text = answer.text().await.unwrap();
            assert!(text.contains("127.0.0.1"), "what to do: {text}");
        }
    }
    sandbox.stop().await;
}

#[tokio::test]
async fn a_page_elsewhere_cannot_post_to_it() {
    let sandbox = sandbox().await;
    let url = format!("{}/_control/faults", sandbox.url());
    let post = |site: &str| client().post(&url).header("Sec-Fetch-Site", site).send();
    assert_eq!(post("cross-site").await.unwrap().status(), 403);
    for site in ["same-origin", "same-site", "none"] {
        assert_ne!(post(site).await.unwrap().status(), 403, "{site}");
    }
    sandbox.stop().await;
}
