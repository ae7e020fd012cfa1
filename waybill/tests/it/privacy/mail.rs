//! Mails as a mail server receives them, and how Waybill handles the server's refusals.

use config::{Config, Mode, Settings};
use domain::money::{Currency, Money};
use domain::notification::{Mail, PaymentFailed};
use tokio::net::TcpListener;
use tokio::time::Instant;
use uuid::Uuid;
use workers::mail::{MailFailure, Mailer};

use crate::support::smtp::{Reply, SmtpServer, self_signed};

const ADA: &str = "ada@example.com";

fn config(settings: &[(&'static str, &str)]) -> Config {
    let mut given = Settings::defaults();
    for (name, value) in settings {
        given.set(name, *value);
    }
    Config::load(&given, Mode::Development).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn mailer_to(url: &str) -> Mailer {
    let from = "Zoë’s Shop <orders@shop.example>";
    let config = config(&[("SMTP_URL", url), ("MAIL_FROM", from)]);
    Mailer::new(&config).expect("there is a mail server")
}

fn mailer(server: &SmtpServer) -> Mailer {
    mailer_to(&server.url())
}

fn mail() -> Mail {
    Mail {
        subject: "Your payment".to_owned(),
        body: "It did not go through.\n".to_owned(),
    }
}

/// Version 7, of 2027-01-15 08:00:00 UTC.
fn id() -> Uuid {
    "01a3185c-5000-7000-8000-000000000007".parse().unwrap()
}

async fn failure(server: &SmtpServer) -> MailFailure {
    let sent = mailer(server).send(id(), None, ADA, &mail()).await;
    let failure = sent.expect_err("it is not sent");
    let text = failure.to_string();
    assert!(!text.contains("ada") && !text.contains("no:"), "{text}");
    failure
}

fn later(text: &str) -> MailFailure {
    MailFailure::Later(text.to_owned())
}

fn refused(text: &str) -> MailFailure {
    MailFailure::Refused(text.to_owned())
}

#[test]
fn without_a_server_there_is_no_mailer() {
    assert!(Mailer::new(&config(&[])).is_none());
}

#[tokio::test]
async fn a_mail_arrives_as_it_was_written() {
    let server = SmtpServer::start().await;
    let long = "Zahlungsempfänger Größe €漢字🎉 ".repeat(8);
    let mail = Mail {
        subject: format!("Zahlung fehlgeschlagen: {}", long.trim()),
        body: format!("Grüße!\n\n.\n..=3D\n{long}\nFrom here = there\n"),
    };
    mailer(&server).send(id(), None, ADA, &mail).await.unwrap();
    let received = server.received();
    assert_eq!(received.len(), 1);
    let got = &received[0];
    let envelope = (got.from.as_str(), got.to.as_str());
    assert_eq!(envelope, ("orders@shop.example", ADA));
    assert_eq!(got.header("Subject"), Some(mail.subject));
    assert_eq!(got.body(), mail.body);
    assert!(got.raw().is_ascii(), "no server needs more");
    assert!(got.raw().lines().all(|line| line.len() <= 998));
    let from = got.header("From").unwrap();
    assert!(
        from.contains("Zoë’s Shop") && from.ends_with("<orders@shop.example>"),
        "{from}"
    );
    for (name, value) in [
        ("To", ADA),
        ("Auto-Submitted", "auto-generated"),
        (
            "Message-ID",
            "<01a3185c-5000-7000-8000-000000000007@shop.example>",
        ),
        ("Date", "Fri, 15 Jan 2027 08:00:00 +0000"),
        ("MIME-Version", "1.0"),
        ("Content-Type", "text/plain; charset=utf-8"),
    ] {
        assert_eq!(got.header(name).as_deref(), Some(value), "{name}");
    }
    assert!(server.said().contains(&"EHLO shop.example".to_owned()));
    assert_eq!(server.said().last().map(String::as_str), Some("QUIT"));
}

#[tokio::test]
async fn a_mail_that_is_sent_again_is_the_same_one() {
    let server = SmtpServer::start().await;
    let mailer = mailer(&server);
    for _ in 0..2 {
        mailer.send(id(), None, ADA, &mail()).await.unwrap();
    }
    mailer
        .send(Uuid::now_v7(), None, ADA, &mail())
        .await
        .unwrap();
    let received = server.received();
    assert_eq!(received[0].raw(), received[1].raw());
    let ids = [1, 2].map(|nth: usize| received[nth].header("Message-ID"));
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn nothing_that_a_mail_is_made_of_becomes_a_header() {
    let server = SmtpServer::start().await;
    let attack = "7\r\nBcc: eve@example.com\r\n\r\nPay here: http://evil.example";
    let config = config(&[]);
    let mut mail = config.templates.payment_failed(
        "default",
        &PaymentFailed {
            amount: Money {
                minor: 1250,
                currency: Currency::parse("USD").unwrap(),
            },
            order: Some(attack),
            decline_code: None,
            pay_url: None,
            retry: None,
        },
    );
    // A subject that no template made.
    mail.subject += attack;
    mailer(&server).send(id(), None, ADA, &mail).await.unwrap();
    let got = &server.received()[0];
    assert_eq!(got.headers("Bcc"), 0, "{}", got.raw());
    assert_eq!(got.headers("Subject"), 1);
    assert!(got.body().contains("order 7  Bcc: eve@example.com"));
    for to in [
        "ada@example.com\r\nBcc: eve@example.com",
        "ada@example.com>, <eve@example.com",
        "ada@example.com, eve@example.com",
        "Ada <ada@example.com>",
        "ada",
        "",
    ] {
        let sent = mailer(&server).send(id(), None, to, &mail).await;
        assert_eq!(sent, Err(refused("it is no mail address")), "{to:?}");
    }
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn only_the_address_and_the_mail_itself_can_be_refused_for_good() {
    let server = SmtpServer::start().await;
    for code in [550, 551, 553] {
        server.at("RCPT", Reply::Code(code));
        let text = format!("the mail server answered {code} to RCPT");
        assert_eq!(failure(&server).await, refused(&text));
    }
    for (command, code, reported) in [
        ("DATA", 554, "DATA"),
        (".", 552, "the text"),
        (".", 554, "the text"),
    ] {
        server.be_kind();
        server.at(command, Reply::Code(code));
        let text = format!("the mail server answered {code} to {reported}");
        assert_eq!(failure(&server).await, refused(&text), "{command}");
    }
    for (command, code, reported) in [
        ("", 554, "our greeting"),
        ("EHLO", 421, "our greeting"),
        ("MAIL", 550, "MAIL"),
        ("MAIL", 451, "MAIL"),
        ("RCPT", 450, "RCPT"),
        ("RCPT", 421, "RCPT"),
        ("DATA", 451, "DATA"),
        (".", 451, "the text"),
    ] {
        server.be_kind();
        server.at(command, Reply::Code(code));
        let text = format!("the mail server answered {code} to {reported}");
        assert_eq!(failure(&server).await, later(&text), "{command}");
    }
    for command in ["", "EHLO", "MAIL", "RCPT", "DATA", "."] {
        server.be_kind();
        server.at(command, Reply::Drop);
        let failure = failure(&server).await;
        assert!(matches!(failure, MailFailure::Later(_)), "{command}");
    }
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn a_mail_that_was_taken_is_sent_however_its_server_says_goodbye() {
    let server = SmtpServer::start().await;
    for manner in [Reply::Drop, Reply::Code(421), Reply::Hang] {
        server.at("QUIT", manner);
        let sent = mailer(&server).send(id(), None, ADA, &mail()).await;
        assert_eq!(sent, Ok(()), "{manner:?}");
    }
    assert_eq!(server.received().len(), 3);
}

#[tokio::test]
async fn a_server_that_hangs_is_left_after_ten_seconds() {
    let server = SmtpServer::start().await;
    server.at("RCPT", Reply::Hang);
    let started = Instant::now();
    let failure = failure(&server).await;
    assert_eq!(failure, later("the mail server did not answer in time"));
    let took = started.elapsed().as_secs_f64();
    assert!((9.9..13.0).contains(&took), "{took}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_for_later() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mailer = mailer_to(&format!("smtp://{address}"));
    let sent = mailer.send(id(), None, ADA, &mail()).await;
    assert_eq!(sent, Err(later("the mail server cannot be reached")));
}

#[tokio::test]
async fn a_login_is_sent_and_its_refusal_is_for_later() {
    let server = SmtpServer::start().await;
    let url = format!("smtp://waybill:p%40ss@{}/mail.shop.example", server.address);
    let mailer = mailer_to(&url);
    mailer.send(id(), None, ADA, &mail()).await.unwrap();
    let said = server.said();
    assert_eq!(said[0], "EHLO mail.shop.example");
    // This is the base64 of "\0waybill\0p@ss".
    assert_eq!(said[1], "AUTH PLAIN AHdheWJpbGwAcEBzcw==");
    server.at("AUTH", Reply::Code(535));
    let sent = mailer.send(id(), None, ADA, &mail()).await;
    let text = "the mail server answered 535 to our login; check SMTP_URL";
    assert_eq!(sent, Err(later(text)));
}

#[tokio::test]
async fn nothing_is_said_in_the_clear_when_encryption_is_required() {
    let server = SmtpServer::start().await;
    let url = |tls: &str| format!("smtp://waybill:secret@{}?tls={tls}", server.address);
    let sent = mailer_to(&url("required"))
        .send(id(), None, ADA, &mail())
        .await;
    let text = "the mail server offers no encryption; check SMTP_URL";
    assert_eq!(sent, Err(later(text)));
    assert_eq!(server.said(), ["EHLO shop.example"]);
    let sent = mailer_to(&url("opportunistic"))
        .send(id(), None, ADA, &mail())
        .await;
    assert_eq!(sent, Ok(()), "where it is not, it goes without");
    // Its greeting is no handshake.
    let wrapped = mailer_to(&format!("smtps://{}", server.address));
    let sent = wrapped.send(id(), None, ADA, &mail()).await;
    let text = sent.expect_err("it is not sent").to_string();
    assert!(text.contains("does not answer in TLS"), "{text}");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_called_that() {
    let address = self_signed().await;
    let mailer = mailer_to(&format!("smtps://{address}"));
    for failure in [
        mailer.send(id(), None, ADA, &mail()).await,
        mailer.probe().await,
    ] {
        let failure = failure.expect_err("it is not trusted");
        assert!(matches!(failure, MailFailure::Later(_)), "{failure}");
        let text = failure.to_string();
        assert!(
            text.contains("has issued the mail server's certificate"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_server_without_a_login_is_called_that() {
    let server = SmtpServer::start().await;
    server.offer_no_login();
    let mailer = mailer_to(&format!("smtp://waybill:secret@{}", server.address));
    let sent = mailer.send(id(), None, ADA, &mail()).await;
    let text = sent.expect_err("it cannot log in").to_string();
    assert!(text.contains("offers no login by PLAIN or LOGIN"), "{text}");
    assert_eq!(server.said(), ["EHLO shop.example"], "no password was said");
}

#[tokio::test]
async fn a_probe_goes_as_far_as_a_mail_and_sends_none() {
    let server = SmtpServer::start().await;
    mailer(&server).probe().await.unwrap();
    let said = [
        "EHLO shop.example",
        "MAIL FROM:<orders@shop.example>",
        "QUIT",
    ];
    assert_eq!(server.said(), said);
    assert_eq!(server.received().len(), 0);
    server.at("MAIL", Reply::Code(550));
    let probed = mailer(&server).probe().await;
    assert_eq!(probed, Err(later("the mail server answered 550 to MAIL")));
}

#[tokio::test]
async fn an_address_beyond_ascii_is_refused_unless_the_server_can_write_it() {
    let server = SmtpServer::start().await;
    let sent = mailer(&server)
        .send(id(), None, "zoë@example.com", &mail())
        .await;
    let text = "the mail server takes no address that is not ASCII";
    assert_eq!(sent, Err(refused(text)));
    server.offer("SMTPUTF8");
    let sent = mailer(&server)
        .send(id(), None, "zoë@example.com", &mail())
        .await;
    assert_eq!(sent, Ok(()));
    assert_eq!(server.received()[0].to, "zoë@example.com");
    let command = "MAIL FROM:<orders@shop.example> SMTPUTF8 BODY=8BITMIME";
    assert!(server.said().contains(&command.to_owned()));
}
