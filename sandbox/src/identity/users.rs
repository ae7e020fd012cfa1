//! The users who can sign in. Among the built-in users there is every state that e-mail addresses
//! can have.

use serde::{Deserialize, Serialize};

use crate::sample::mix;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub login: String,
    /// The number of the account. It stays the same when the login changes.
    pub id: u64,
    pub name: Option<String>,
    pub emails: Vec<Email>,
}

/// An e-mail address as the API writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Email {
    pub email: String,
    #[serde(default)]
    pub primary: bool,
    #[serde(default)]
    pub verified: bool,
    #[serde(default)]
    pub visibility: Option<Visibility>,
}

/// Whether the address is public. The provider sets this only for the primary address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    Public,
    Private,
}

impl User {
    /// A user with an id that is made from the login.
    pub fn new(login: &str, name: Option<&str>, emails: Vec<Email>) -> Self {
        User {
            login: login.to_owned(),
            id: 1_000_000 + mix("user", mix(login, 0)) % 200_000_000,
            name: name.map(str::to_owned),
            emails,
        }
    }

    /// The e-mail address that the public profile shows.
    pub fn public_email(&self) -> Option<&str> {
        let public = |email: &&Email| email.visibility == Some(Visibility::Public);
        self.emails
            .iter()
            .find(public)
            .map(|email| email.email.as_str())
    }

    /// A description for the person who chooses a user on the page.
    pub(super) fn describe(&self) -> String {
        let login = &self.login;
        match self.emails.iter().find(|email| email.primary) {
            Some(primary) if primary.verified => format!("{login}, {}", primary.email),
            Some(primary) => format!("{login}, {} (not verified)", primary.email),
            None => format!("{login}, no e-mail address"),
        }
    }
}

impl Email {
    /// A user with a private primary address.
    pub fn primary(email: &str, verified: bool) -> Self {
        Email {
            primary: true,
            visibility: Some(Visibility::Private),
            ..Email::other(email, verified)
        }
    }

    pub fn other(email: &str, verified: bool) -> Self {
        Email {
            email: email.to_owned(),
            primary: false,
            verified,
            visibility: None,
        }
    }
}

pub fn built_in() -> Vec<User> {
    let shown = Email {
        visibility: Some(Visibility::Public),
        ..Email::primary("petra@example.com", true)
    };
    // The primary address is on the second page of 30.
    let mut many: Vec<_> = (1..=32)
        .map(|nth| Email::other(&format!("manuela+{nth}@example.com"), true))
        .collect();
    many.push(Email::primary("manuela@example.com", true));
    vec![
        User::new(
            "octavia",
            Some("Octavia Lund"),
            vec![
                Email::other("octavia.old@example.com", true),
                Email::primary("octavia@example.com", true),
            ],
        ),
        User::new("petra", Some("Petra Novák"), vec![shown]),
        User::new(
            "noah",
            None,
            vec![
                Email::primary("noah@example.com", false),
                Email::other("noah.work@example.com", false),
            ],
        ),
        User::new(
            "ulla",
            Some("Ulla Berg"),
            vec![
                Email::primary("ulla@example.com", false),
                Email::other("ulla.second@example.com", true),
            ],
        ),
        User::new("manuela", Some("Manuela Ortiz"), many),
        User::new("nemo", None, Vec::new()),
    ]
}
