//! Checks that settings send nothing to other machines without encryption. A credential, or
//! people's data, goes in clear to no machine but this one, unless the operator has named the host
//! in `ALLOW_CLEARTEXT`. An operator who names a host knows that the network to it is private; in
//! all other cases encryption was probably forgotten.

use std::fmt;
use std::net::IpAddr;

use super::{Config, Reader, Settings};
use domain::origins::is_this_machine;

const NAME: &str = "ALLOW_CLEARTEXT";

/// A setting by which data is sent to another machine without encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleartext {
    pub setting: &'static str,
    pub host: String,
}

impl fmt::Display for Cleartext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.setting, self.host)
    }
}

impl Config {
    /// The hosts in `ALLOW_CLEARTEXT`.
    pub fn cleartext_hosts(settings: &Settings) -> Vec<String> {
        let list = settings.get(NAME).unwrap_or_default();
        list.split(',').map(|host| bare(host.trim())).collect()
    }
}

impl Reader<'_> {
    /// Checks the list of hosts.
    pub(super) fn cleartext_hosts(&mut self) {
        if self.settings.get(NAME).is_none() {
            return;
        }
        let Some(text) = self.text(NAME) else { return };
        let is_host = |host: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            host.parse::<IpAddr>().is_ok() || (!host.is_empty() && host.chars().all(fits))
        };
        if let Some(wrong) = text.split(',').map(str::trim).find(|it| !is_host(it)) {
            let what = format!(
                "has {wrong:?}; it must be names or addresses of hosts, without scheme and port, \
                 separated by commas"
            );
            self.wrong(NAME, what);
        }
    }

    /// Notes that a setting sends a credential, or people's data, to this host without encryption,
    /// and refuses it unless the host is allowed. `instead` tells the operator how to encrypt the
    /// connection.
    pub(super) fn credential_in_clear(&mut self, setting: &'static str, host: &str, instead: &str) {
        let host = bare(host);
        if !is_this_machine(&host) && !self.is_allowed(&host) {
            let what = format!(
                "sends a credential or people's data to {host} in clear; {instead}, or name the \
                 host in {NAME} if only your own machines can reach the network to it"
            );
            self.wrong(setting, what);
        }
        self.in_clear(setting, &host);
    }

    /// Notes that a setting sends data to this host without encryption. It is reported and not
    /// refused.
    pub(super) fn in_clear(&mut self, setting: &'static str, host: &str) {
        let host = bare(host);
        if !is_this_machine(&host) {
            self.cleartext.push(Cleartext { setting, host });
        }
    }

    fn is_allowed(&self, host: &str) -> bool {
        let list = self.settings.get(NAME).unwrap_or_default();
        list.split(',').any(|it| bare(it.trim()) == host)
    }
}

/// The host in lower case; an IPv6 address without its brackets.
fn bare(host: &str) -> String {
    host.trim_matches(['[', ']']).to_ascii_lowercase()
}
