//! Settings of outgoing mail: the server, the sender, and the templates.

use std::path::Path;

use lettre::Address;
use lettre::message::Mailbox;
use percent_encoding::percent_decode_str;
use reqwest::Url;

use super::Reader;
use domain::notification::Templates;
use platform::token::Token;

/// The mail server, and the sender of the mails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smtp {
    pub server: Server,
    pub from: Mailbox,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// A name or an address; an IPv6 address is without brackets.
    pub host: String,
    pub port: u16,
    pub tls: Tls,
    pub login: Option<Login>,
    /// The name that Waybill sends with EHLO. `None`: the sender's domain.
    pub hello: Option<String>,
}

/// When the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    Never,
    /// The connection is encrypted if the server offers it (STARTTLS).
    Opportunistic,
    /// The connection is encrypted right after the greetings (STARTTLS), or no mail is sent.
    Required,
    /// The connection is encrypted from the first byte.
    Wrapped,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: Token,
}

const FORM: &str = "must be smtp:// or smtps:// and user:password@host:port, where user and port \
                    may be left out; smtp:// may end with ?tls=required or ?tls=opportunistic";

impl Reader<'_> {
    /// Reads the server and the sender. Mail needs both; if neither is set, none is sent.
    pub(super) fn smtp(&mut self) -> Option<Smtp> {
        let (url, from) = ("SMTP_URL", "MAIL_FROM");
        match (self.settings.get(url), self.settings.get(from)) {
            (None, None) => return None,
            (Some(_), None) => self.wrong(from, format_args!("is missing; {url} needs it")),
            (None, Some(_)) => self.wrong(url, format_args!("is missing; {from} is its sender")),
            (Some(_), Some(_)) => {}
        }
        let server = self.text(url).and_then(|text| {
            let server = Server::of_url(text.trim());
            if server.is_none() {
                self.wrong(url, FORM);
            }
            server
        });
        if let Some(server) = &server {
            self.mail_in_clear(url, server);
        }
        let expected = "an address like Shop <orders@shop.example>";
        let from: Option<Mailbox> = self.parse(from, expected);
        Some(Smtp {
            server: server?,
            from: from?,
        })
    }

    /// Refuses a password that goes without encryption, or with an encryption that somebody on the
    /// network between can prevent. A server without a login is only reported, because many
    /// servers send mails on in clear anyway.
    fn mail_in_clear(&mut self, setting: &'static str, server: &Server) {
        if matches!(server.tls, Tls::Required | Tls::Wrapped) {
            return;
        }
        if server.login.is_some() {
            let instead = "begin it with smtps://, or end it with ?tls=required";
            self.credential_in_clear(setting, &server.host, instead);
        } else {
            self.in_clear(setting, &server.host);
        }
    }

    /// Who is notified of what needs a person.
    pub(super) fn operators_mail(&mut self) -> Option<Address> {
        const NAME: &str = "OPERATORS_MAIL";
        self.settings.get(NAME)?;
        if self.settings.get("SMTP_URL").is_none() {
            self.wrong(
                NAME,
                "needs a server that sends the mails; set SMTP_URL and MAIL_FROM",
            );
        }
        self.parse(NAME, "one address like ops@shop.example")
    }

    pub(super) fn templates(&mut self) -> Option<Templates> {
        const NAME: &str = "NOTIFICATION_TEMPLATES";
        let folder = match self.settings.get(NAME) {
            Some(_) => Some(self.text(NAME)?),
            None => None,
        };
        match Templates::load(folder.as_deref().map(Path::new)) {
            Ok(templates) => Some(templates),
            Err(mistakes) => {
                for mistake in mistakes {
                    self.wrong(NAME, format_args!("is not right: {mistake}"));
                }
                None
            }
        }
    }
}

impl Server {
    /// Reads a URL like `smtps://user:password@mail.example`. None for what could be misunderstood.
    pub fn of_url(url: &str) -> Option<Self> {
        let url = Url::parse(url).ok()?;
        let parameters: Vec<_> = url.query_pairs().collect();
        let parameters: Vec<_> = parameters
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let (tls, port) = match (url.scheme(), parameters.as_slice()) {
            ("smtp", []) => (Tls::Never, 25),
            ("smtp", [("tls", "opportunistic")]) => (Tls::Opportunistic, 587),
            ("smtp", [("tls", "required")]) => (Tls::Required, 587),
            ("smtps", []) => (Tls::Wrapped, 465),
            _ => return None,
        };
        let decoded = |text: &str| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
        let login = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some(Login {
                user: decoded(user).filter(|user| !user.is_empty())?,
                password: Token::new(decoded(password?)?),
            }),
        };
        let hello = url.path().trim_matches('/');
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if !hello.chars().all(fits) || url.fragment().is_some() {
            return None;
        }
        Some(Server {
            host: host(&url)?,
            port: url.port().unwrap_or(port),
            tls,
            login,
            hello: (!hello.is_empty()).then(|| hello.to_owned()),
        })
    }
}

fn host(url: &Url) -> Option<String> {
    let host = url.host_str()?.trim_matches(['[', ']']);
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    (!host.is_empty() && host.chars().all(fits)).then(|| host.to_owned())
}
