//! Sends mails over SMTP, with one connection for each mail.
//!
//! After a fault a mail may be sent a second time; both then have the same `Message-ID`, which is
//! made of the job's id. The texts of errors name only the SMTP command and the server's code,
//! because servers quote the address in their texts, and the address is personal data.
//!
//! The library `lettre` makes the connection and sends each command. The sequence of commands is
//! written here, because `lettre`'s transport returns one error for the whole dialogue. For a code
//! 5xx it does not say which command failed. If it was `RCPT`, this address never gets a mail. If
//! it was the login, the sender or the text, the operator has to correct a setting, and the mail
//! is sent again later. Also, the time limits of `lettre` apply to each command, and here one
//! limit applies to the whole mail.

use std::time::{Duration, SystemTime};

use config::{Config, Server, Smtp, Tls};
use domain::notification::Mail;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, SinglePart};
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::{Error, commands};
use lettre::{Address, Message};
use tokio::time::timeout;
use uuid::Uuid;

/// How long a mail may take, from the connection to the last answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// How long connecting to one address of the server may take. The server may have further
/// addresses.
const CONNECT_DEADLINE: Duration = Duration::from_secs(4);

/// How long the goodbye (QUIT) may take. Its result does not matter, because the mail is sent.
const GOODBYE: Duration = Duration::from_secs(1);

/// Why a mail was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailFailure {
    /// Another try may succeed. This try may have succeeded too, if only the answer was lost.
    #[error("{0}")]
    Later(String),
    /// The address does not exist, or the server does not accept mail for it.
    #[error("{0}")]
    Refused(String),
}

/// Sends mails through one server, from one sender.
#[derive(Clone)]
pub struct Mailer {
    smtp: Smtp,
    hello: ClientId,
    tls: Option<TlsParameters>,
}

impl Mailer {
    /// A mailer for these settings; `None` if no mail server is set.
    pub fn new(config: &Config) -> Option<Self> {
        let smtp = config.smtp.clone()?;
        let Server { host, hello, .. } = &smtp.server;
        let hello = hello.clone();
        let hello = hello.unwrap_or_else(|| smtp.from.email.domain().to_owned());
        let tls = (smtp.server.tls != Tls::Never).then(|| {
            TlsParameters::new(host.clone())
                .expect("a client without a certificate of its own can be built")
        });
        Some(Mailer {
            hello: ClientId::Domain(hello),
            tls,
            smtp,
        })
    }

    /// Sends a mail to one address. The `Message-ID` is made of `id`, so it is the same however
    /// often the mail is sent. The mail's date is the time in `id`, if that is a UUID of version 7.
    pub async fn send(&self, id: Uuid, to: &str, mail: &Mail) -> Result<(), MailFailure> {
        let to = to.trim().parse::<Address>();
        let to = to.map_err(|_| refused("it is no mail address"))?;
        let message = self.message(id, to.clone(), mail)?;
        let sent = timeout(DEADLINE, self.deliver(to, &message));
        let mut connection = sent
            .await
            .unwrap_or_else(|_| Err(later("the mail server did not answer in time")))?;
        let _ = timeout(GOODBYE, connection.quit()).await;
        Ok(())
    }

    /// Connects and logs in as for a mail, but sends none.
    pub async fn probe(&self) -> Result<(), MailFailure> {
        let mut connection = self.connect().await?;
        let _ = timeout(GOODBYE, connection.quit()).await;
        Ok(())
    }

    fn message(&self, id: Uuid, to: Address, mail: &Mail) -> Result<Vec<u8>, MailFailure> {
        let from = &self.smtp.from;
        // This header asks other machines to send no automatic answer (RFC 3834).
        let automatic = HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        );
        let mut message = Message::builder()
            .from(from.clone())
            .to(Mailbox::new(None, to))
            .subject(&mail.subject)
            .message_id(Some(format!("<{id}@{}>", from.email.domain())))
            .raw_header(automatic);
        if let Some(written) = id.get_timestamp() {
            let (seconds, nanos) = written.to_unix();
            message = message.date(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos));
        }
        let text = SinglePart::plain(mail.body.clone());
        let message = message.singlepart(text);
        match message {
            Ok(message) => Ok(message.formatted()),
            Err(_) => Err(refused("its sender and recipient make no mail")),
        }
    }

    async fn deliver(
        &self,
        to: Address,
        message: &[u8],
    ) -> Result<AsyncSmtpConnection, MailFailure> {
        let mut connection = self.connect().await?;
        let from = self.smtp.from.email.clone();
        let mut parameters = Vec::new();
        if !message.is_ascii() {
            let server = connection.server_info();
            if !server.supports_feature(Extension::SmtpUtfEight) {
                let what = "the mail server takes no address that is not ASCII";
                return Err(refused(what));
            }
            parameters.push(MailParameter::SmtpUtfEight);
            parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
        }
        let mail = commands::Mail::new(Some(from), parameters);
        let mail = connection.command(mail).await;
        mail.map_err(|error| failed("MAIL", &error))?;
        let recipient = commands::Rcpt::new(to, Vec::new());
        let recipient = connection.command(recipient).await;
        recipient.map_err(|error| {
            if error.is_permanent() {
                refused(&failure_text("RCPT", &error))
            } else {
                failed("RCPT", &error)
            }
        })?;
        let data = connection.command(commands::Data).await;
        data.map_err(|error| failed("DATA", &error))?;
        let taken = connection.message(message).await;
        taken.map_err(|error| failed("the text", &error))?;
        Ok(connection)
    }

    /// Opens a connection; encrypts it and logs in, if the settings say so.
    async fn connect(&self) -> Result<AsyncSmtpConnection, MailFailure> {
        let Server { host, port, .. } = &self.smtp.server;
        let wrapped = self.smtp.server.tls == Tls::Wrapped;
        let tls = self.tls.clone();
        let connected = AsyncSmtpConnection::connect_tokio1(
            (host.as_str(), *port),
            Some(CONNECT_DEADLINE),
            &self.hello,
            tls.clone().filter(|_| wrapped),
            None,
        );
        let unreachable = |error: Error| match error.status() {
            Some(_) => failed("our greeting", &error),
            None => later("the mail server cannot be reached"),
        };
        let mut connection = connected.await.map_err(unreachable)?;
        let wanted = match self.smtp.server.tls {
            Tls::Never | Tls::Wrapped => false,
            Tls::Opportunistic => connection.can_starttls(),
            Tls::Required => true,
        };
        if let Some(tls) = tls.filter(|_| wanted) {
            if !connection.can_starttls() {
                return Err(later(
                    "the mail server offers no encryption; check SMTP_URL",
                ));
            }
            let encrypted = connection.starttls(tls, &self.hello).await;
            encrypted.map_err(|error| failed("STARTTLS", &error))?;
        }
        if let Some(login) = &self.smtp.server.login {
            let password = login.password.expose().to_owned();
            let login = Credentials::new(login.user.clone(), password);
            let answer = connection.auth(DEFAULT_MECHANISMS, &login).await;
            answer.map_err(|error| failed("our login; check SMTP_URL", &error))?;
        }
        Ok(connection)
    }
}

fn failure_text(command: &str, error: &Error) -> String {
    match error.status() {
        Some(code) => format!("the mail server answered {code} to {command}"),
        None => format!("the mail server did not answer to {command}"),
    }
}

fn failed(command: &str, error: &Error) -> MailFailure {
    MailFailure::Later(failure_text(command, error))
}

fn later(text: &str) -> MailFailure {
    MailFailure::Later(text.to_owned())
}

fn refused(text: &str) -> MailFailure {
    MailFailure::Refused(text.to_owned())
}
