//! The connections of a process. It asks [twice a second](LOOK_AGAIN) whether somebody has changed one, so that every
//! process knows of a change within a second. While the database does not answer, what was known last goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use config::Config;
use config::connection::{Registry, SharedRegistry};
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::task;
use store::connections::{self, Loaded, Unreadable};
use store::sql::{self, Db, Error};

const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The connections as they are now, for a command.
pub async fn read(config: &Config, db: &Db, clock: &Clock) -> sql::Result<SharedRegistry> {
    let all = connections::all(db).await?;
    let loaded = connections::registry(config, &all, clock.now());
    Ok(SharedRegistry::new(loaded.registry))
}

/// Starts to follow the changes of connections. Until the database answers for the first time none is known, so
/// deliveries are not accepted and workers wait ([`known`]). The task ends when the database's pool is closed.
pub async fn follow(config: &Arc<Config>, db: &Db, clock: &Clock) -> SharedRegistry {
    let shared = SharedRegistry::new(Registry::unread(config));
    let mut follower = Follower {
        config: config.clone(),
        db: db.clone(),
        clock: clock.clone(),
        shared: shared.clone(),
        known: None,
        unreadable: BTreeMap::new(),
    };
    if let Err(error) = follower.look().await {
        tracing::warn!(%error, "the connections cannot be read yet; trying again");
    }
    task::spawn("connections", async move {
        let mut is_failing = false;
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            match follower.look().await {
                Ok(()) => is_failing = false,
                Err(Error::PoolClosed) => return,
                Err(error) => {
                    if !is_failing {
                        tracing::warn!(%error, "the connections cannot be read; what is known of them goes on");
                    }
                    is_failing = true;
                }
            }
        }
    });
    shared
}

/// Waits until it is known which connections there are.
pub async fn known(connections: &SharedRegistry) {
    while !connections.now().is_read() {
        tokio::time::sleep(LOOK_AGAIN / 5).await;
    }
}

struct Follower {
    config: Arc<Config>,
    db: Db,
    clock: Clock,
    shared: SharedRegistry,
    /// The latest change that is known, and when a secret ends. `None`: nothing was read yet.
    known: Option<(i64, Option<Timestamp>)>,
    unreadable: BTreeMap<String, Unreadable>,
}

impl Follower {
    async fn look(&mut self) -> sql::Result<()> {
        // The revision is read before the rows: a change in between is read again and not missed.
        let revision = connections::revision(&self.db).await?;
        let now = self.clock.now();
        if let Some((known, end)) = self.known
            && known == revision
            && end.is_none_or(|end| now < end)
        {
            return Ok(());
        }
        let all = connections::all(&self.db).await?;
        let Loaded {
            registry,
            unreadable,
            next_end,
        } = connections::registry(&self.config, &all, now);
        for (name, why) in &unreadable {
            if self.unreadable.get(name) != Some(why) {
                tracing::error!(
                    connection = name,
                    "a connection takes no deliveries and calls nobody: {why}"
                );
            }
        }
        self.unreadable = unreadable;
        self.shared.replace(registry);
        self.known = Some((revision, next_end));
        Ok(())
    }
}
