//! The `identity_provider` table: to which provider the numbers in `users.provider_id` belong. At
//! another provider the same number is another person, who would inherit licences. So a process
//! does not start with another provider until an operator has said what became of the accounts.
//!
//! Every provider on this machine is a stand-in, and all of them count as one, whatever their
//! ports.

use crate::sql::{Db, Error, Result, Tx};
use platform::clock::Clock;

/// The name of every provider on this machine.
pub const STAND_IN: &str = "stand-in";

#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error(
        "the accounts in this database are those of {recorded}, and GITHUB_URL leads to \
         {configured}, where the same numbers are other people: they would have licences that are \
         not theirs. Set GITHUB_URL back"
    )]
    Another {
        recorded: String,
        configured: String,
    },
    #[error(transparent)]
    Database(#[from] Error),
}

/// The name of the provider at this address.
pub fn name(url: &str) -> String {
    let url = url.trim().trim_end_matches('/').to_ascii_lowercase();
    let host = url.split_once("://").map_or("", |(_, rest)| rest);
    let is_here = ["127.", "localhost", "[::1]"];
    if is_here.iter().any(|here| host.starts_with(here)) || url == STAND_IN {
        return STAND_IN.to_owned();
    }
    url
}

/// Records the provider as the one that the users' accounts belong to, if none is recorded. Fails
/// when another one is.
pub async fn claim(db: &Db, clock: &Clock, url: &str) -> std::result::Result<(), ClaimError> {
    let configured = name(url);
    if recorded(db).await?.is_none() {
        let mut tx = db.begin().await?;
        tx.query(
            "insert into identity_provider (id, name, recorded_at) values (1, $1, $2)
             on conflict (id) do nothing",
        )
        .bind(configured.as_str())
        .bind(clock.now().0)
        .execute()
        .await?;
        tx.commit().await?;
    }
    // Another process may have recorded one first.
    let recorded = recorded(db).await?.ok_or(Error::RowNotFound)?;
    if recorded == configured {
        return Ok(());
    }
    Err(ClaimError::Another {
        recorded,
        configured,
    })
}

/// The provider that the users' accounts belong to. None when no process has started with a
/// provider yet.
pub async fn recorded(db: &Db) -> Result<Option<String>> {
    db.query("select name from identity_provider where id = 1")
        .first(|row| row.get("name"))
        .await
}

/// Records that the same accounts are at another address now. False when no provider was
/// recorded.
pub async fn moved(tx: &mut Tx, clock: &Clock, name: &str) -> Result<bool> {
    tx.query("update identity_provider set name = $1, recorded_at = $2 where id = 1")
        .bind(name)
        .bind(clock.now().0)
        .changed_one()
        .await
}

/// Replaces the accounts of the provider `former` by those of another provider. The former
/// accounts are put aside: nobody is found by their numbers or logins, and nobody can claim an
/// invitation that was meant for one of them. Accounts of the new provider that were put aside
/// earlier are restored. Returns how many were put aside.
pub async fn replaced(tx: &mut Tx, clock: &Clock, former: &str, name: &str) -> Result<u64> {
    let aside = tx
        .query(
            "update users set former_provider = $1, former_id = provider_id, provider_id = null,
                 login_key = null, claimable_until = null
             where provider_id is not null",
        )
        .bind(former)
        .execute()
        .await?;
    tx.query("update users set claimable_until = null where provider_id is null")
        .execute()
        .await?;
    tx.query(
        "update users set provider_id = former_id, former_provider = null, former_id = null
         where former_provider = $1",
    )
    .bind(name)
    .execute()
    .await?;
    moved(tx, clock, name).await?;
    Ok(aside)
}
