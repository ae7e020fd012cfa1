//! URLs of mail servers.

use config::{Login, Server, Tls};
use platform::token::Token;

#[test]
fn a_url_names_server_encryption_and_login() {
    let plain = |host: &str, port, tls| Server {
        host: host.to_owned(),
        port,
        tls,
        login: None,
        hello: None,
    };
    for (url, expected) in [
        ("smtp://localhost", plain("localhost", 25, Tls::Never)),
        (
            "smtp://127.0.0.1:1025/",
            plain("127.0.0.1", 1025, Tls::Never),
        ),
        ("smtp://[::1]:1025", plain("::1", 1025, Tls::Never)),
        (
            "smtps://mail.example",
            plain("mail.example", 465, Tls::Wrapped),
        ),
        (
            "smtp://mail.example?tls=required",
            plain("mail.example", 587, Tls::Required),
        ),
        (
            "smtp://mail.example:26?tls=opportunistic",
            plain("mail.example", 26, Tls::Opportunistic),
        ),
    ] {
        assert_eq!(Server::of_url(url), Some(expected), "{url}");
    }
    let full = Server::of_url("smtps://ada%40shop:p%2F%3A@mail.example/me.example").unwrap();
    let login = Login {
        user: "ada@shop".to_owned(),
        password: Token::new("p/:"),
    };
    assert_eq!(full.login, Some(login));
    assert_eq!(full.hello.as_deref(), Some("me.example"));
}

#[test]
fn what_would_be_misunderstood_is_refused() {
    for url in [
        "mail.example",
        "http://mail.example",
        "smtp://",
        "smtp:mail.example",
        "smtp://user@mail.example",
        "smtp://:password@mail.example",
        "smtp://mail.example?tls=yes",
        "smtp://mail.example?tls=required&tls=opportunistic",
        "smtp://mail.example?ssl=1",
        "smtps://mail.example?tls=opportunistic",
        "smtp://mail.example/a b",
        "smtp://mail.example/a/b",
        "smtp://mail.example#a",
        "smtp://mail.example:99999",
        "smtp://ma%20il.example",
    ] {
        assert_eq!(Server::of_url(url), None, "{url}");
    }
}
