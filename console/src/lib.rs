//! The console: pages on which operators see what came in and what became of it. They are served on a
//! listener of their own, from the binary alone.
//!
//! - It is closed: every page but the one for signing in has a role as a type (`access::Visit`), and only
//!   that type gives a handler the database. So a page without a role does not compile.
//! - A page cannot change what it shows: pages read through connections of their own that only read
//!   (`Db::for_readers`), so they never take a connection from webhooks either. What changes something is a
//!   form (`access::Write`), and all of these are in one table (`writes`).
//! - No statement of a page selects a personal column. An e-mail address is searched by its key.

pub mod access;
mod act;
pub mod address;
mod deed;
mod error;
mod fields;
mod form;
mod frame;
mod identity;
mod known;
mod listing;
mod pages;
mod routes;
mod runner;
mod writes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use domain::api_key::{Role, State};
use platform::task;
use process::Parts;
use store::api_keys;
use store::sql::Db;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::access::Gate;
use crate::address::Address;
use crate::known::Known;
use crate::pages::live::{LOOK_AGAIN, Watched};

pub use writes::{Writes, table as writes};

/// How many pages read from the database at a time, each with a connection of its own. All others wait for
/// their turn.
pub const READERS: u32 = 2;
/// The longest time that a statement of a page may take.
const LONGEST_STATEMENT: Duration = Duration::from_secs(5);
/// How long connections may take to end when the process stops.
const DRAIN: Duration = Duration::from_secs(2);
const FORGET_IDLE: Duration = Duration::from_mins(1);

/// The state that every handler gets.
pub struct Console {
    gate: Gate,
    address: Address,
    parts: Parts,
    /// The connections for what is shown.
    reads: Db,
    turns: Arc<Semaphore>,
    watched: Watched,
    known: Known,
}

/// A console that listens and does not serve yet.
pub struct Listening {
    console: Arc<Console>,
    listener: TcpListener,
    at: SocketAddr,
}

/// Opens the listener. Fails when others than this machine can reach it and no key opens it, because
/// somebody would then believe that it is in use.
pub async fn listen(parts: &Parts, address: SocketAddr) -> Result<Listening> {
    if parts.config.console.is_exposed() && !is_opened_by_a_key(parts).await? {
        bail!(
            "CONSOLE_ADDR: others can reach the console, and there is no key with which anybody could \
             sign in. Make one: waybill keys create NAME --scope console:{}",
            Role::Owner.into_str()
        );
    }
    let listener = server::listen(address).with_context(|| {
        format!(
            "CONSOLE_ADDR: cannot listen on {address}; another program, perhaps another Waybill, is \
             there. Stop it, or give this one another address with --console-addr, or off"
        )
    })?;
    let at = listener.local_addr()?;
    let console = Console {
        gate: Gate::new(parts),
        address: Address::of(&parts.config.console, at),
        reads: parts.db.for_readers(READERS, LONGEST_STATEMENT),
        turns: Arc::new(Semaphore::new(READERS as usize)),
        watched: Watched::default(),
        known: Known::default(),
        parts: parts.clone(),
    };
    Ok(Listening {
        console: Arc::new(console),
        listener,
        at,
    })
}

async fn is_opened_by_a_key(parts: &Parts) -> Result<bool> {
    let keys = api_keys::list(&parts.db, parts.clock.now()).await?;
    let opens =
        |key: &api_keys::ApiKeyEntry| key.state == State::Active && !key.rights.roles().is_empty();
    Ok(keys.iter().any(opens))
}

impl Listening {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// The address at which operators open it.
    pub fn url(&self) -> &str {
        self.console.address.url()
    }

    /// A link that signs somebody in once, with the rights of this key.
    pub fn link(&self, key: Uuid) -> String {
        let code = self.console.gate.once(key);
        format!("{}{}?code={code}", self.url(), routes::ONCE)
    }

    /// Says in the log where it is, and serves in a task of its own until `shutdown`.
    pub fn start(self, tasks: &TaskTracker, shutdown: &CancellationToken) {
        tracing::info!(url = self.url(), "serving the console");
        let shutdown = shutdown.clone();
        let serving = async move {
            if let Err(error) = self.serve(shutdown).await {
                let error = format!("{error:#}");
                tracing::error!(error, "the console did not stop in order");
            }
        };
        task::spawn("console", tasks.track_future(serving));
    }

    /// Serves until `shutdown`.
    pub async fn serve(self, shutdown: CancellationToken) -> Result<()> {
        let Listening {
            console, listener, ..
        } = self;
        let config = &console.parts.config;
        let limits = server::Limits {
            connections: config.max_connections,
            trusted_proxies: config.trusted_proxies.clone(),
            keep_alive: config.keep_alive,
            is_kept_for: |_| true,
        };
        forget_idle(&console, &shutdown);
        console.watched.live.look_for_new(
            &console.reads,
            &console.parts.clock,
            LOOK_AGAIN,
            Some(console.turns.clone()),
            &shutdown,
        );
        let running = shutdown.child_token();
        let runner = runner::start(&console, &running);
        let router = routes::router(console.clone());
        let served = server::serve(listener, router, limits, shutdown, DRAIN).await;
        running.cancel();
        let _ = runner.await;
        served?;
        console.reads.close_readers().await;
        Ok(())
    }
}

fn forget_idle(console: &Arc<Console>, shutdown: &CancellationToken) {
    let (console, shutdown) = (Arc::downgrade(console), shutdown.clone());
    task::spawn("guesses at the console", async move {
        loop {
            tokio::select! {
                () = tokio::time::sleep(FORGET_IDLE) => {}
                () = shutdown.cancelled() => return,
            }
            match console.upgrade() {
                Some(console) => console.gate.forget_idle(),
                None => return,
            }
        }
    });
}
