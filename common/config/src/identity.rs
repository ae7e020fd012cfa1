//! The settings of the identity provider, which begin with `GITHUB_`.

use platform::token::Token;
use providers::identity::IdentityProvider;

use crate::{Origin, Reader};

/// The API of <https://github.com>.
const GITHUB_API: &str = "https://api.github.com";

/// The address of the API that belongs to the address where people log in. This is GitHub itself,
/// GitHub Enterprise Cloud with data residency (`acme.ghe.com`), or an Enterprise server.
fn api_of(url: &str) -> String {
    match host(url).as_str() {
        "github.com" => GITHUB_API.to_owned(),
        host if host.ends_with(".ghe.com") => format!("https://api.{host}"),
        _ => format!("{url}/api/v3"),
    }
}

/// Whether GitHub itself runs the server at this address.
fn is_githubs_own(url: &str) -> bool {
    let host = host(url);
    host == "github.com" || host.ends_with(".ghe.com")
}

/// The host of a URL, with its port, in lower case.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    host.to_ascii_lowercase()
}

impl Reader<'_> {
    /// Reads the identity provider. Without a client id nobody can log in; the other settings are
    /// checked all the same.
    pub(crate) fn identity(&mut self) -> Option<IdentityProvider> {
        let url = self.url("GITHUB_URL");
        let api_url = self.identity_api(url.as_deref());
        let has_checksums = match self.settings.get("GITHUB_TOKEN_CHECKSUMS") {
            Some(_) => self.flag("GITHUB_TOKEN_CHECKSUMS"),
            None => url.as_deref().map(is_githubs_own),
        };
        let takes_unverified = self.flag("GITHUB_UNVERIFIED_EMAILS");
        if takes_unverified == Some(true) && url.as_deref().is_some_and(is_githubs_own) {
            let what = "is for an Enterprise server; GitHub itself verifies addresses";
            self.wrong("GITHUB_UNVERIFIED_EMAILS", what);
        }
        let api_version = self.visible("GITHUB_API_VERSION", 40);
        let mut given = |name| {
            let is_given = self.settings.get(name).is_some();
            is_given.then(|| self.visible(name, 255)).flatten()
        };
        let client_id = given("GITHUB_CLIENT_ID");
        let client_secret = given("GITHUB_CLIENT_SECRET");
        if client_secret.is_some() && self.settings.get("GITHUB_CLIENT_ID").is_none() {
            let what = "is missing; GITHUB_CLIENT_SECRET is its secret";
            self.wrong("GITHUB_CLIENT_ID", what);
        }
        if client_id.is_some() {
            self.identity_in_clear(url.as_deref(), api_url.as_deref());
        }
        Some(IdentityProvider {
            url: url?,
            api_url: api_url?,
            api_version: api_version?,
            client_id: client_id?,
            client_secret: client_secret.map(Token::new),
            has_checksums: has_checksums?,
            takes_unverified: takes_unverified?,
        })
    }

    /// The API to which tokens and the client secret are sent. It must belong to the provider
    /// where people log in, so that no other provider gets their tokens.
    fn identity_api(&mut self, url: Option<&str>) -> Option<String> {
        const NAME: &str = "GITHUB_API_URL";
        if self.settings.get(NAME).is_none() {
            return url.map(api_of);
        }
        let api_url = self.url(NAME)?;
        let is_githubs = host(&api_url) == host(GITHUB_API);
        if is_githubs && url.is_some_and(|url| host(url) != "github.com") {
            let what = "is GitHub's own, and GITHUB_URL another provider's: the tokens of one \
                        would be sent to the other; unset it, and it follows from GITHUB_URL";
            self.wrong(NAME, what);
        }
        if !is_githubs && self.settings.origin("GITHUB_URL") == Origin::Default {
            let what = "is missing; GITHUB_API_URL is another provider's. For a proxy before \
                        GitHub's own set it to https://github.com";
            self.wrong("GITHUB_URL", what);
        }
        Some(api_url)
    }

    /// Checks that neither address sends tokens in clear. If the API's address was derived from
    /// `GITHUB_URL`, the mistake names that setting.
    fn identity_in_clear(&mut self, url: Option<&str>, api_url: Option<&str>) {
        if let Some(url) = url {
            self.encrypted_or_allowed("GITHUB_URL", url);
        }
        if let Some(api_url) = api_url
            && self.settings.get("GITHUB_API_URL").is_some()
        {
            self.encrypted_or_allowed("GITHUB_API_URL", api_url);
        }
    }
}
