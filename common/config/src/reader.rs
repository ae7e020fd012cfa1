//! Reads settings one by one and collects all mistakes. What several settings have in common is here; the files
//! beside this one have the methods for those of one subject.

use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;
use platform::token::Token;
use providers::Api;
use reqwest::Url;

use crate::cleartext::Cleartext;
use crate::{Mistakes, Mode, SETTINGS, Settings};

/// A reader of settings.
pub(crate) struct Reader<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) mistakes: Vec<String>,
    pub(crate) cleartext: Vec<Cleartext>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(settings: &'a Settings) -> Self {
        Reader {
            mistakes: settings.mistakes().to_vec(),
            ..Reader::alone(settings)
        }
    }

    /// A reader for a single setting. It ignores mistakes in other settings.
    pub(crate) fn alone(settings: &'a Settings) -> Self {
        Reader {
            settings,
            mistakes: Vec::new(),
            cleartext: Vec::new(),
        }
    }

    /// The same, for settings whose names begin with `prefix` and whose values may be in files. That such
    /// a file cannot be read is no reason to go on as if they were not set.
    pub(crate) fn of_files(settings: &'a Settings, prefix: &str) -> Self {
        Reader {
            mistakes: settings.unread(prefix),
            ..Reader::alone(settings)
        }
    }

    /// What was read, if no mistake was found.
    pub(crate) fn finished<T>(self, read: Option<T>) -> Result<T, Mistakes> {
        match read {
            Some(read) if self.mistakes.is_empty() => Ok(read),
            _ => Err(Mistakes(self.mistakes)),
        }
    }

    pub(crate) fn wrong(&mut self, name: &str, what: impl fmt::Display) {
        self.mistakes.push(format!("{name} {what}"));
    }

    /// The text of a setting; `None` when it has neither a value nor a default.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let value = self.settings.get(name)?;
        if value.trim().is_empty() {
            self.wrong(name, "is empty; give it a value or unset it");
            return None;
        }
        Some(value.to_owned())
    }

    pub(crate) fn parse<T: FromStr>(&mut self, name: &str, expected: &str) -> Option<T> {
        let text = self.text(name)?;
        let parsed = text.trim().parse().ok();
        if parsed.is_none() {
            self.wrong(name, format_args!("is {text:?}; it must be {expected}"));
        }
        parsed
    }

    pub(crate) fn number(&mut self, name: &str, least: u32, most: u32) -> Option<u32> {
        let expected = format!("a whole number from {least} to {most}");
        let number = self.parse(name, &expected)?;
        if (least..=most).contains(&number) {
            return Some(number);
        }
        self.wrong(name, format_args!("is {number}; it must be {expected}"));
        None
    }

    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        let text = self.text(name)?;
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => {
                self.wrong(name, format_args!("is {text:?}; it must be true or false"));
                None
            }
        }
    }

    pub(crate) fn url(&mut self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        let text = text.trim().trim_end_matches('/');
        let host = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        let fits = host.is_some_and(|host| {
            !host.is_empty()
                && !host.contains(['?', '#', '@'])
                && !host.contains(char::is_whitespace)
        });
        if fits {
            return Some(text.to_owned());
        }
        self.wrong(
            name,
            "must be http:// or https:// and a host, without user, query or fragment",
        );
        None
    }

    /// Reads a word that is put into headers and paths.
    pub(crate) fn visible(&mut self, name: &'static str, longest: usize) -> Option<String> {
        let text = self.text(name)?.trim().to_owned();
        let fits = text.len() <= longest
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
        if fits {
            return Some(text);
        }
        self.wrong(
            name,
            format_args!("must be at most {longest} letters, digits, '-', '_', '.' and '~'"),
        );
        None
    }

    /// Names that are separated by commas.
    pub(crate) fn names(&mut self, name: &str) -> Option<Vec<String>> {
        if self.settings.get(name).is_none() {
            return Some(Vec::new());
        }
        let text = self.text(name)?;
        let names: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
        if names.iter().any(String::is_empty) {
            self.wrong(
                name,
                "has an empty name; it must be names separated by commas",
            );
            return None;
        }
        Some(names)
    }

    pub(crate) fn networks(&mut self, name: &'static str) -> Option<Vec<IpNet>> {
        if self.settings.get(name).is_none() {
            return Some(Vec::new());
        }
        let text = self.text(name)?;
        let mut proxies = Vec::new();
        for part in text.split(',').map(str::trim) {
            let network = part
                .parse::<IpNet>()
                .or_else(|_| part.parse::<std::net::IpAddr>().map(IpNet::from));
            match network {
                Ok(network) => proxies.push(network),
                Err(_) => self.wrong(
                    name,
                    format_args!("has {part:?}; it must be addresses or networks like 10.0.0.0/8"),
                ),
            }
        }
        Some(proxies)
    }

    /// A list for rotation: any of the secrets verifies, the first one is the newest.
    pub(crate) fn secrets(
        &mut self,
        name: &str,
        mode: Mode,
        development: &str,
    ) -> Option<Vec<String>> {
        if !reads(name, mode) {
            return Some(Vec::new());
        }
        // Whoever has connections may have no shop and no account without one. Where others can reach the process the
        // public secret is none.
        let has_connections = self.settings.get("SECRETS_KEY").is_some();
        let is_development = mode == Mode::Development;
        let may_be_none = !is_development || !self.exposures().is_empty();
        if self.settings.get(name).is_none() && has_connections && may_be_none {
            return Some(Vec::new());
        }
        if self.settings.get(name).is_none() && is_development {
            return Some(vec![development.to_owned()]);
        }
        if self.settings.get(name).is_none() {
            let what = format_args!(
                "is missing; set it or {name}_FILE, or set SECRETS_KEY and add connections"
            );
            self.wrong(name, what);
            return None;
        }
        let text = self.text(name)?;
        let secrets: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
        if secrets.iter().any(String::is_empty) {
            self.wrong(name, "has an empty secret between its commas");
            return None;
        }
        if secrets.iter().any(|secret| secret.len() < 8) {
            self.wrong(name, "has a secret of less than 8 characters");
            return None;
        }
        if secrets.len() > 2 {
            self.wrong(
                name,
                "lists more than two secrets, the new one and the former; a shop or an account with a secret of its own \
                 is a connection: waybill connections add --help",
            );
            return None;
        }
        Some(secrets)
    }

    /// Checks an address to which a credential or people's data is sent.
    pub(crate) fn encrypted_or_allowed(&mut self, setting: &'static str, address: &str) {
        if address.starts_with("http://")
            && let Ok(url) = Url::parse(address)
            && let Some(host) = url.host_str()
        {
            self.credential_in_clear(setting, host, "begin it with https://");
        }
    }

    /// Reads the address and the credential of an API. It needs both; if neither is set, or the process does not read the
    /// credential, the API is not called.
    pub(crate) fn api(
        &mut self,
        mode: Mode,
        url: &'static str,
        token: &'static str,
    ) -> Option<Api> {
        if !reads(token, mode) {
            return None;
        }
        match (self.settings.get(url), self.settings.get(token)) {
            (None, None) => return None,
            (Some(_), None) => self.wrong(token, format_args!("is missing; {url} needs it")),
            (None, Some(_)) => self.wrong(url, format_args!("is missing; {token} is its key")),
            (Some(_), Some(_)) => {}
        }
        let address = self.url(url);
        let text = self.text(token)?;
        let text = text.trim();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            self.wrong(token, "must be printable ASCII without spaces");
            return None;
        }
        let address = address?;
        self.encrypted_or_allowed(url, &address);
        Some(Api {
            url: address,
            token: Token::new(text),
            connection: None,
        })
    }
}

/// Whether a process reads this setting.
pub(crate) fn reads(name: &str, mode: Mode) -> bool {
    let setting = SETTINGS.iter().find(|setting| setting.name == name);
    setting.is_some_and(|setting| setting.readers.have(mode))
}
