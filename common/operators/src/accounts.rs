//! Whom an operator means by a login. Logins change hands, and a person is known by the number of the account, so the
//! identity provider is asked who has the login now:
//!
//! 1. It is the account that is known here by it, or one that is not known here: that account is meant, by its number.
//! 2. It is another account than the one that is known here by it: nothing is done, because nobody but the operator
//!    knows which of the two is meant.
//! 3. It is none: nothing is done. Whoever takes the login later is not the one who is meant.
//! 4. The provider cannot be asked: the login means what it meant when it was seen last, and [`Meant::doubt`] says so.

use domain::account::Account;
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::zone;
use providers::identity::{Identity, IdentityProvider};
use store::identity_provider;
use store::sql::{self, Db, Tx};
use store::users::{self, Named, User};

/// Why nobody is meant.
#[derive(Debug, thiserror::Error)]
pub enum Unclear {
    #[error("no account has the login {0}; nothing was changed")]
    None(String),
    #[error(
        "{login} is the login of account {now}, and was that of account {then} when it was last seen here, {seen}: say \
         which you mean, id:{now} or id:{then}; nothing was changed"
    )]
    Changed {
        login: String,
        now: i64,
        then: i64,
        seen: String,
    },
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// What the identity provider says about somebody whom an operator names.
pub struct Meant<'a> {
    named: &'a Named,
    now: Now,
}

enum Now {
    Account(Account),
    Nobody,
    /// With the reason in brackets, if there is one.
    NotAsked(String),
}

impl<'a> Meant<'a> {
    /// Asks the provider, if the numbers in the database are those of its accounts.
    pub async fn ask(
        db: &Db,
        clock: &Clock,
        provider: Option<&IdentityProvider>,
        named: &'a Named,
    ) -> sql::Result<Self> {
        let recorded = identity_provider::recorded(db).await?;
        let is_of_these =
            |it: &&IdentityProvider| recorded == Some(identity_provider::name(&it.url));
        let now = match (named, provider.filter(is_of_these)) {
            (Named::Login(login), Some(provider)) => {
                match Identity::new(provider, clock).account_named(login).await {
                    Ok(Some(account)) => Now::Account(account),
                    Ok(None) => Now::Nobody,
                    Err(error) => Now::NotAsked(format!(" ({error})")),
                }
            }
            _ => Now::NotAsked(String::new()),
        };
        Ok(Meant { named, now })
    }

    /// The person. Somebody who is not known here is entered by the account's number, or else invited.
    pub async fn person(&self, tx: &mut Tx, clock: &Clock) -> Result<User, Unclear> {
        let account = match &self.now {
            Now::Account(account) => account,
            Now::Nobody => return Err(Unclear::None(self.named.to_string())),
            Now::NotAsked(_) => return Ok(users::find_or_invite(tx, clock, self.named).await?),
        };
        let known = users::find(tx, self.named).await?;
        match known.and_then(|user| Some((user.provider_id?, user.seen_at))) {
            Some((then, seen_at)) if then != account.provider_id => Err(Unclear::Changed {
                login: account.login.clone(),
                now: account.provider_id,
                then,
                seen: seen_at.map_or("never".to_owned(), zone::time),
            }),
            _ => Ok(users::see(tx, clock, account).await?),
        }
    }

    /// What an operator must know who named this person by login, when the provider was not asked.
    pub fn doubt(&self, person: &User) -> Option<String> {
        let seen: Option<Timestamp> = person.seen_at;
        let (Named::Login(login), Now::NotAsked(why)) = (self.named, &self.now) else {
            return None;
        };
        Some(format!(
            "The identity provider was not asked who has the login {login} now{why}. Account {} had it when it was last seen \
             here, {}.\n",
            person.provider_id?,
            zone::time(seen?)
        ))
    }
}
