//! `waybill login` is a sample client of the device login. It shows the page to open and the code
//! to enter there, waits, and says who logged in. It never opens a browser by itself, because the
//! person may use a browser on another machine than this terminal.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{Config, Settings};
use platform::backoff::Backoff;
use platform::clock::Clock;
use platform::terminal;
use providers::identity::GRANT_TYPE;
use qr::{Level, QrConfig, Symbol};
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::commands::client;
use crate::table::{self, Table};

const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// How long a login is asked for of a service that cannot answer for a moment.
const PATIENCE: Duration = Duration::from_secs(15);
/// By how much `slow_down` makes the interval longer (RFC 8628, section 3.5).
const SLOWER: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The width of the light border around a QR code in modules. Readers need it.
const QUIET: usize = 4;

#[derive(clap::Args)]
pub struct Arguments {
    /// Print JSON: one line when the login begins, and one with the token when it is done
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Begun {
    device_code: String,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: u64,
    interval: u64,
}

pub async fn run(settings: &Settings, arguments: &Arguments) -> Result<()> {
    let url = Config::public_url(settings)?;
    let device = Device {
        client: client(&url, REQUEST_DEADLINE)?,
        url,
    };
    let begun = device.begin().await?;
    if arguments.json {
        let begin = json!({
            "verification_uri": begun.verification_uri,
            "user_code": begun.user_code,
            "expires_in": begun.expires_in,
        });
        table::print(&format!("{begin}\n"))?;
    } else {
        table::print(&invitation(&begun))?;
        if let Some(code) = code(&begun).filter(|_| terminal::out_is_one()) {
            table::was_read(terminal::drawing(&code))?;
        }
    }
    let user = device.wait(&begun, !arguments.json).await?;
    if arguments.json {
        return table::print(&format!("{user}\n"));
    }
    table::print(&describe(&user))
}

struct Device {
    client: Client,
    url: String,
}

impl Device {
    /// Asks for a code, and while the service says that it cannot answer now, asks again when it says to.
    async fn begin(&self) -> Result<Begun> {
        let url = format!("{}/auth/device/code", self.url);
        let clock = Clock::system();
        loop {
            let response = self.client.post(&url).send().await;
            let response = response.with_context(|| {
                format!(
                    "nothing answers on {url}; is Waybill running? PUBLIC_URL names its address"
                )
            })?;
            let status = response.status();
            let wait = retry_after(&response);
            let body: Value = response.json().await.unwrap_or_default();
            if status == StatusCode::OK {
                return serde_json::from_value(body).context("the answer is not a device code");
            }
            let detail = body["detail"].as_str().unwrap_or("no reason given");
            let Some(wait) = wait else {
                bail!("{status}: {detail}");
            };
            let is_away = status == StatusCode::SERVICE_UNAVAILABLE;
            if !is_away || clock.elapsed() + wait > PATIENCE {
                bail!("{status}: {detail}; try again in {} s", wait.as_secs());
            }
            tokio::time::sleep(wait.max(Duration::from_secs(1))).await;
        }
    }

    async fn wait(&self, begun: &Begun, shown: bool) -> Result<Value> {
        let waited = self.poll_until_over(begun, shown).await;
        if shown {
            terminal::over("");
        }
        waited
    }

    /// Polls until the login is over (RFC 8628, section 3.5). `shown`: how long the code is still valid is
    /// shown meanwhile.
    async fn poll_until_over(&self, begun: &Begun, shown: bool) -> Result<Value> {
        let clock = Clock::system();
        let end = clock.elapsed() + Duration::from_secs(begun.expires_in);
        let mut interval = Duration::from_secs(begun.interval.max(1));
        let mut backoff = less_and_less_often(interval);
        let mut pause = interval;
        loop {
            let next = clock.elapsed() + pause;
            while clock.elapsed() < next {
                if shown {
                    countdown(end.saturating_sub(clock.elapsed()));
                }
                let left = next.saturating_sub(clock.elapsed());
                tokio::time::sleep(left.min(Duration::from_secs(1))).await;
            }
            if clock.elapsed() >= end {
                bail!("the code has expired; run `waybill login` again");
            }
            let Some((status, wait, body)) = self.poll(&begun.device_code).await else {
                // The service did not answer, so ask less and less often.
                pause = backoff.next_pause();
                continue;
            };
            match (status.as_u16(), body["error"].as_str()) {
                (200, _) => return Ok(body),
                (_, Some("authorization_pending")) => {
                    backoff.reset();
                    pause = interval;
                }
                (_, Some("slow_down")) => {
                    interval += SLOWER;
                    backoff = less_and_less_often(interval);
                    pause = interval.max(wait.unwrap_or_default());
                }
                (503, _) => {
                    let next = backoff.next_pause();
                    pause = wait.unwrap_or(next).max(interval);
                }
                (_, Some("expired_token")) => {
                    bail!("the code has expired; run `waybill login` again")
                }
                (403, _) => bail!(
                    "{}: give your account a primary e-mail address and verify it",
                    body["detail"].as_str().unwrap_or("refused")
                ),
                (_, Some("access_denied")) => bail!("the login was denied on the page"),
                (status, _) => {
                    bail!("{status}: {}", body["detail"].as_str().unwrap_or("refused"))
                }
            }
        }
    }

    async fn poll(&self, device_code: &str) -> Option<(StatusCode, Option<Duration>, Value)> {
        let form = [("device_code", device_code), ("grant_type", GRANT_TYPE)];
        let url = format!("{}/auth/device/token", self.url);
        let response = self.client.post(url).form(&form).send().await.ok()?;
        let status = response.status();
        let wait = retry_after(&response);
        Some((status, wait, response.json().await.unwrap_or_default()))
    }
}

fn retry_after(response: &reqwest::Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// The pauses between polls while the service does not answer.
fn less_and_less_often(interval: Duration) -> Backoff {
    Backoff::new(interval * 2, LONGEST_PAUSE)
}

/// Shows how long the code is still valid, on one line that each call writes over.
fn countdown(left: Duration) {
    let (minutes, seconds) = (left.as_secs() / 60, left.as_secs() % 60);
    terminal::over(&format!("Waiting for you, {minutes}:{seconds:02} left "));
}

/// The line with the address to open and the code to enter there.
fn invitation(begun: &Begun) -> String {
    format!(
        "Open {} in any browser and enter the code {}\n",
        begun.verification_uri, begun.user_code
    )
}

/// The address as a QR code for a terminal.
fn code(begun: &Begun) -> Option<String> {
    let link = begun
        .verification_uri_complete
        .as_ref()
        .unwrap_or(&begun.verification_uri);
    let symbol = QrConfig::new("http://localhost", 1, 4, Level::L)
        .ok()
        .and_then(|qr| qr.custom(link).ok())?;
    Some(format!("\n{}\n", drawn(&symbol)))
}

/// Draws two rows of modules in each line of text, in black on white whatever the terminal's
/// colours are.
fn drawn(symbol: &Symbol) -> String {
    let width = symbol.width();
    let is_dark = |x: usize, y: usize| {
        let inside = |at: usize| at.checked_sub(QUIET).filter(|at| *at < width);
        inside(x)
            .zip(inside(y))
            .is_some_and(|(x, y)| symbol.is_dark(x, y))
    };
    let side = width + 2 * QUIET;
    let mut text = String::new();
    for y in (0..side).step_by(2) {
        text.push_str("\x1b[30;107m");
        for x in 0..side {
            text.push(match (is_dark(x, y), is_dark(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        text.push_str("\x1b[0m\n");
    }
    text
}

fn describe(user: &Value) -> String {
    let text = |name: &str| user[name].as_str().unwrap_or("-").to_owned();
    let mut facts = Table::new(["user", &text("username")]);
    facts.fact("e-mail", text("email"));
    facts.fact("tier", text("tier"));
    facts.fact("organization", text("org_name"));
    facts.render()
}

#[cfg(test)]
#[path = "../../tests/unit/commands/login.rs"]
mod tests;
