//! A lease (`store::leases`) that a task holds for as long as it works.

use std::time::Duration;

use process::Parts;
use store::leases;
use store::sql::Result;
use tokio::time::Instant;
use uuid::Uuid;

pub struct Lease {
    name: String,
    /// How long it lasts, and so how long others wait when this process is killed. It is renewed when a third of this has
    /// passed.
    length: Duration,
    holder: Uuid,
    /// When this process last took or renewed it. `None`: it does not hold the lease.
    renewed_at: Option<Instant>,
}

impl Lease {
    pub fn new(parts: &Parts, name: impl Into<String>, length: Duration) -> Self {
        Lease {
            name: name.into(),
            length,
            holder: parts.clock.id(),
            renewed_at: None,
        }
    }

    /// Whether this process held it when it last looked.
    pub fn is_held(&self) -> bool {
        self.renewed_at.is_some()
    }

    /// Renews the lease or tries to get it, and returns whether this process holds it.
    pub async fn hold(&mut self, parts: &Parts) -> Result<bool> {
        let begun = Instant::now();
        if (self.renewed_at).is_some_and(|at| begun < at + self.length / 3) {
            return Ok(true);
        }
        let now = parts.clock.now();
        let until = now.plus(self.length);
        if !self.is_held() && leases::is_held(&parts.db, &self.name, now, until).await? {
            return Ok(false);
        }
        let taken = leases::take(&parts.db, &self.name, self.holder, now, until).await?;
        self.renewed_at = taken.then_some(begun);
        Ok(taken)
    }

    /// Lets another process have it.
    pub async fn let_go(&mut self, parts: &Parts) {
        if self.renewed_at.take().is_some()
            && let Err(error) = leases::release(&parts.db, &self.name, self.holder).await
        {
            tracing::debug!(%error, lease = self.name, "a lease ends by itself");
        }
    }
}
