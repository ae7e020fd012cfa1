//! A service on another machine, which commands ask with an API key in place of a database.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::Settings;
use providers::is_loopback;
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;

use crate::commands::misused;

const CONNECT: Duration = Duration::from_secs(10);
/// A stream says something every ten seconds, and an answer that is waited for comes within twenty.
const SILENCE: Duration = Duration::from_secs(30);

pub struct Remote {
    client: Client,
    url: String,
    key: String,
}

impl Remote {
    pub fn new(settings: &Settings, url: &str, key_file: &Path) -> Result<Self> {
        let url = url.trim_end_matches('/');
        let is_http = url.starts_with("http://") || url.starts_with("https://");
        let parsed = Url::parse(url).ok().filter(|_| is_http);
        let host = parsed.as_ref().and_then(Url::host_str);
        let host = host.ok_or_else(|| misused("--url: must be http:// or https:// and a host"))?;
        if url.starts_with("http://") && !is_loopback(url) && !is_allowed(settings, host) {
            return Err(misused(format!(
                "--url: the API key would be sent to {host} without encryption; begin the address with \
                 https://, or name {host} in ALLOW_CLEARTEXT"
            )));
        }
        let mut client = Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE);
        if is_loopback(url) {
            client = client.no_proxy();
        }
        Ok(Remote {
            client: client.build()?,
            url: url.to_owned(),
            key: read_key(key_file)?,
        })
    }

    /// The address of a path there.
    pub fn address(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// A path there with these fields in its query.
    pub fn path<'a>(
        &self,
        path: &str,
        fields: impl Iterator<Item = (&'a str, &'a str)>,
        more: &'a [(&'a str, String)],
    ) -> String {
        let more = more.iter().map(|(name, value)| (*name, value.as_str()));
        let url = Url::parse_with_params(&self.address(path), fields.chain(more));
        let query = url.ok().and_then(|url| url.query().map(str::to_owned));
        format!("{path}?{}", query.unwrap_or_default())
    }

    /// The answer of 200 to a request, or why there is none now. An error is final.
    pub async fn get(&self, path: &str) -> Result<Result<Response, String>> {
        let url = self.address(path);
        let shown = url.split('?').next().unwrap_or_default();
        let request = self.client.get(&url).bearer_auth(&self.key);
        let Ok(response) = request.send().await else {
            return Ok(Err(format!("nothing answers on {shown}")));
        };
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(Ok(response));
        }
        let body: Value = response.json().await.unwrap_or_default();
        let detail = body["detail"].as_str().unwrap_or("no reason given");
        let what = format!("{shown} answered {}: {detail}", status.as_u16());
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Ok(Err(what));
        }
        bail!("{what}");
    }
}

/// Hosts to which credentials may be sent in clear.
fn is_allowed(settings: &Settings, host: &str) -> bool {
    let allowed = settings.get("ALLOW_CLEARTEXT").unwrap_or_default();
    allowed
        .split(',')
        .any(|it| it.trim().eq_ignore_ascii_case(host))
}

fn read_key(file: &Path) -> Result<String> {
    let mut key = String::new();
    if file == Path::new("-") {
        std::io::stdin()
            .read_to_string(&mut key)
            .context("--key-file: cannot read standard input")?;
    } else {
        key = std::fs::read_to_string(file)
            .with_context(|| format!("--key-file: cannot read {}", file.display()))?;
    }
    Ok(key.trim().to_owned())
}
