//! Sends mails over SMTP, with one connection for each mail.
//!
//! After a fault a mail may be sent a second time; both then have the same `Message-ID`, which is
//! made of the job's id. The texts of errors name only the SMTP command and the server's code,
//! because servers quote the address in their texts, and the address is personal data.
//!
//! The library `lettre` makes the connection and sends each command. The sequence of commands is
//! written here, because `lettre`'s transport returns one error for the whole dialogue. For a code
//! 5xx it does not say which command failed. If it was `RCPT`, this address never gets a mail; if
//! it was `DATA` or the text, the server never takes this mail (RFC 5321, section 4.2.1). Neither
//! is tried again. If it was the greeting, the login or the sender, the operator has to correct a
//! setting, and the mail is sent again later. Also, the time limits of `lettre` apply to each
//! command, and here one limit applies to the whole mail.

use std::error::Error as StdError;
use std::io;
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
use rustls::CertificateError;
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
    /// The server never takes this mail: the address does not exist, the server does not accept
    /// mail for it, or refuses the text.
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

    /// Sends a mail to one address, from this sender in place of the one of the settings. The `Message-ID` is made of `id`, so it is the same however
    /// often the mail is sent. The mail's date is the time in `id`, if that is a UUID of version 7.
    pub async fn send(
        &self,
        id: Uuid,
        from: Option<&Mailbox>,
        to: &str,
        mail: &Mail,
    ) -> Result<(), MailFailure> {
        let to = to.trim().parse::<Address>();
        let to = to.map_err(|_| refused("it is no mail address"))?;
        let from = from.unwrap_or(&self.smtp.from);
        let message = message(id, from, to.clone(), mail)?;
        let sent = timeout(DEADLINE, self.deliver(from.email.clone(), to, &message));
        let mut connection = sent
            .await
            .unwrap_or_else(|_| Err(later("the mail server did not answer in time")))?;
        let _ = timeout(GOODBYE, connection.quit()).await;
        Ok(())
    }

    /// Connects, logs in and names the sender as for a mail, but sends none.
    pub async fn probe(&self) -> Result<(), MailFailure> {
        let mut connection = self.connect().await?;
        let mail = commands::Mail::new(Some(self.smtp.from.email.clone()), Vec::new());
        let mail = connection.command(mail).await;
        mail.map_err(|error| failed("MAIL", &error))?;
        let _ = timeout(GOODBYE, connection.quit()).await;
        Ok(())
    }

    async fn deliver(
        &self,
        from: Address,
        to: Address,
        message: &[u8],
    ) -> Result<AsyncSmtpConnection, MailFailure> {
        let mut connection = self.connect().await?;
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
        recipient.map_err(|error| not_taken("RCPT", &error))?;
        let data = connection.command(commands::Data).await;
        data.map_err(|error| not_taken("DATA", &error))?;
        let taken = connection.message(message).await;
        taken.map_err(|error| not_taken("the text", &error))?;
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
            None => later(encryption_text(&error).unwrap_or("the mail server cannot be reached")),
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
            encrypted.map_err(|error| match encryption_text(&error) {
                Some(text) => later(text),
                None => failed("STARTTLS", &error),
            })?;
        }
        if let Some(login) = &self.smtp.server.login {
            let password = login.password.expose().to_owned();
            let login = Credentials::new(login.user.clone(), password);
            let answer = connection.auth(DEFAULT_MECHANISMS, &login).await;
            answer.map_err(|error| {
                // No mechanism fits those that the server has named, so nothing was sent.
                if error.is_client() {
                    later(NO_LOGIN)
                } else {
                    failed("our login; check SMTP_URL", &error)
                }
            })?;
        }
        Ok(connection)
    }
}

fn message(id: Uuid, from: &Mailbox, to: Address, mail: &Mail) -> Result<Vec<u8>, MailFailure> {
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

const NO_LOGIN: &str = "the mail server offers no login by PLAIN or LOGIN; check SMTP_URL: some \
                        servers offer it only over an encrypted connection, and others need no \
                        user and password";

/// What is wrong with the encryption, if that is why a connection failed. Of a server's certificate
/// only the kind of fault is passed on.
fn encryption_text(error: &Error) -> Option<&'static str> {
    use CertificateError as Fault;

    Some(match tls_error(error)? {
        rustls::Error::InvalidCertificate(fault) => match fault {
            Fault::UnknownIssuer => {
                "nobody whom this machine trusts has issued the mail server's certificate; add the \
                 issuer to this machine's certificates, or check SMTP_URL"
            }
            Fault::Expired | Fault::ExpiredContext { .. } => {
                "the mail server's certificate has expired; it must be renewed there"
            }
            Fault::NotValidYet | Fault::NotValidYetContext { .. } => {
                "the mail server's certificate is not valid yet; check the clocks of both machines"
            }
            Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
                "the mail server's certificate is for another name than the host in SMTP_URL"
            }
            _ => "the mail server's certificate cannot be verified; check SMTP_URL",
        },
        rustls::Error::InvalidMessage(_) => {
            "the mail server does not answer in TLS; check SMTP_URL: smtps:// is for ports that \
             encrypt from the first byte, and smtp://..?tls=required for all others"
        }
        _ => "the mail server and this machine agree on no encryption; check SMTP_URL",
    })
}

/// The error of TLS behind an error of the connection.
fn tls_error(error: &Error) -> Option<&rustls::Error> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        let tls = io.and_then(|io| io.get_ref()?.downcast_ref());
        if tls.is_some() {
            return tls;
        }
        next = error.source();
    }
    None
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

/// A code 5xx to a part of the mail itself is the server's last word.
fn not_taken(command: &str, error: &Error) -> MailFailure {
    if error.is_permanent() {
        refused(&failure_text(command, error))
    } else {
        failed(command, error)
    }
}

fn later(text: &str) -> MailFailure {
    MailFailure::Later(text.to_owned())
}

fn refused(text: &str) -> MailFailure {
    MailFailure::Refused(text.to_owned())
}
