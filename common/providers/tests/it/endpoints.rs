//! Which addresses can be endpoints, and what is kept of their answers.

use std::time::Duration;

use domain::endpoint::Secret;
use domain::time::Timestamp;
use platform::task;
use providers::endpoints::{AddressError, Allowed, Sender, Webhook};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

#[test]
fn only_addresses_that_are_allowed_can_be_endpoints() {
    let allowed = Allowed {
        networks: vec!["10.1.0.0/16".parse().unwrap()],
        cleartext: vec!["hooks.shop.example".to_owned()],
        this_machine: false,
    };
    let check = |url: &str| allowed.check(url).err();
    for url in [
        "https://shop.example/hooks",
        "https://shop.example:8443/hooks?a=b",
        "https://10.1.2.3/",
        "http://hooks.shop.example/",
    ] {
        assert_eq!(check(url), None, "{url}");
    }
    for (url, error) in [
        ("shop.example", AddressError::NotAUrl),
        ("ftp://shop.example/", AddressError::NotAUrl),
        (" https://shop.example/", AddressError::NotAUrl),
        ("https://shop.example/a\nb", AddressError::NotAUrl),
        ("https:/shop.example/", AddressError::NotAUrl),
        ("file:///etc/passwd", AddressError::NotAUrl),
        ("https://ann:x@shop.example/", AddressError::Credentials),
        ("http://shop.example/", AddressError::Cleartext),
        ("https://127.0.0.1/", AddressError::Private),
        ("http://127.0.0.1/", AddressError::Private),
        ("https://[::1]/", AddressError::Private),
        ("https://[::ffff:10.0.0.1]/", AddressError::Private),
        ("https://0x7f000001/", AddressError::Private),
        ("https://2130706433/", AddressError::Private),
        ("https://127.1/", AddressError::Private),
        (
            "https://169.254.169.254/latest/meta-data",
            AddressError::Private,
        ),
        ("https://10.2.0.1/", AddressError::Private),
    ] {
        assert_eq!(check(url), Some(error), "{url}");
    }
}

#[tokio::test]
async fn an_endpoint_that_has_accepted_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let endpoint = task::spawn("endpoint", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n1";
        stream.write_all(answer).await.unwrap();
        // The rest never comes, and the connection stays open.
        std::future::pending::<()>().await;
    });
    let sender = Sender::new(Allowed {
        networks: vec!["127.0.0.0/8".parse().unwrap()],
        cleartext: vec!["127.0.0.1".to_owned()],
        this_machine: false,
    });
    let secret = Secret::new([7; 32]);
    let webhook = Webhook::signed(&url, &[secret], "1".into(), Timestamp(0), b"{}".to_vec());
    let sent = tokio::time::timeout(Duration::from_secs(5), sender.send(webhook));
    sent.await.expect("within a second").unwrap();
    endpoint.abort();
}
