//! What is sent to other machines as it is. A credential, or people's data, goes in clear to no
//! machine but this one, unless the operator has named the host: in a network of their own they
//! know what they do, and anywhere else it was forgotten.

use std::fmt;
use std::net::IpAddr;

use super::Reader;
use domain::origins::is_this_machine;

const NAME: &str = "ALLOW_CLEARTEXT";

/// A setting that leads to another machine, without encryption.
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

    /// A setting that sends a credential, or people's data, to this host as it is. `instead` says
    /// how it would be encrypted.
    pub(super) fn credential_in_clear(&mut self, setting: &'static str, host: &str, instead: &str) {
        let host = bare(host);
        if !is_this_machine(&host) && !self.is_allowed(&host) {
            let what = format!(
                "sends a credential or people's data to {host} in clear; {instead}, or name the \
                 host in {NAME} if the whole way to it is yours"
            );
            self.wrong(setting, what);
        }
        self.in_clear(setting, &host);
    }

    /// The same, of what is reported and not refused.
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

/// In lower case, an IPv6 address without its brackets.
fn bare(host: &str) -> String {
    host.trim_matches(['[', ']']).to_ascii_lowercase()
}
