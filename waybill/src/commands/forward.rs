//! `waybill listen --forward-to`: events as an endpoint gets them, sent by this command to a system on the developer's own
//! machine. Each is sent until it is accepted, and those after it wait, so none is lost and none overtakes another. Only
//! this command waits: the service knows nothing of it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use config::{Config, Settings};
use domain::endpoint::Secret;
use domain::envelope::Envelope;
use platform::clock::Clock;
use platform::terminal;
use providers::endpoints::{AddressError, Failed, Sender, Webhook};
use tokio::time::{Instant, sleep};

use uuid::Uuid;

use crate::commands::misused;
use lists::shown::quoted;

/// The first pause before an event is sent again; each further one is twice as long, up to [`LONGEST`].
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

pub struct Forward {
    url: String,
    secrets: [Secret; 1],
    /// The secret was made for this run.
    is_new: bool,
    sender: Sender,
    clock: Clock,
}

impl Forward {
    pub fn new(settings: &Settings, url: &str, secret_file: Option<&Path>) -> Result<Self> {
        let mut allowed = Config::endpoints(settings)?;
        allowed.this_machine = true;
        if let Err(error) = allowed.check(url) {
            let advice = match error {
                AddressError::Private => {
                    "; this command sends to this machine, and to networks of ENDPOINT_NETWORKS"
                }
                _ => "",
            };
            return Err(misused(format!("--forward-to: {error}{advice}")));
        }
        let clock = Clock::system();
        let secret = match secret_file {
            None => Secret::new(clock.secret()),
            Some(file) => {
                let text = std::fs::read_to_string(file);
                let text =
                    text.with_context(|| format!("--secret-file: cannot read {}", file.display()))?;
                let wrong =
                    |_| misused("--secret-file: must have whsec_ and the base64 of 24 to 64 bytes");
                text.trim().parse().map_err(wrong)?
            }
        };
        Ok(Forward {
            url: url.to_owned(),
            secrets: [secret],
            is_new: secret_file.is_none(),
            sender: Sender::new(allowed),
            clock,
        })
    }

    pub fn begun(&self) {
        let secret = if self.is_new {
            let secret = self.secrets[0].reveal();
            format!("They are signed by Standard Webhooks with {secret}\n")
        } else {
            String::new()
        };
        let text = format!(
            "Forwarding events to {}; Ctrl-C ends it.\n{secret}",
            self.url
        );
        terminal::err(&text);
    }

    /// The command that goes on after an event, with the other options that were given.
    pub fn go_on(&self, after: Uuid, options: &str) {
        let url = quoted(&self.url);
        let secret = if self.is_new {
            "; --secret-file keeps the secret the same"
        } else {
            ""
        };
        terminal::err(&format!(
            "To go on after the last one: waybill listen --forward-to {url} --after {after}{options}{secret}\n"
        ));
    }

    /// Sends an event until it is accepted, and says how long the answer to the last try took.
    pub async fn send(&self, event: &Envelope) -> Result<Duration> {
        let body = serde_json::to_vec(event)?;
        let mut pause = FIRST;
        loop {
            let (id, now) = (event.id.to_string(), self.clock.now());
            let webhook = Webhook::signed(&self.url, &self.secrets, id, now, body.clone());
            let begun = Instant::now();
            let failed = match self.sender.send(webhook).await {
                Ok(()) => return Ok(begun.elapsed()),
                Err(Failed::Address(error)) => {
                    return Err(misused(format!("--forward-to: {error}")));
                }
                Err(failed) => failed,
            };
            let wait = failed.retry_after().unwrap_or_default().max(pause);
            terminal::err(&format!(
                "{} {}: {failed}; again in {} s, and what follows waits\n",
                event.kind,
                event.object_id,
                wait.as_secs()
            ));
            sleep(wait).await;
            pause = (pause * 2).min(LONGEST);
        }
    }
}
