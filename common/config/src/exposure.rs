//! The secrets that everybody knows are refused where others can reach a process.

use std::net::SocketAddr;

use providers::is_loopback;

use crate::{DEVELOPMENT_PAYMENT_SECRET, DEVELOPMENT_STOREFRONT_SECRET, Reader, Weakness};

/// A signing secret with fewer characters than this could be guessed.
const SHORT: usize = 16;

/// The weakness of the weakest of these secrets; `None` if all are strong.
pub(crate) fn weakness(secrets: &[String]) -> Option<Weakness> {
    let is_public = |secret: &String| {
        secret == DEVELOPMENT_STOREFRONT_SECRET || secret == DEVELOPMENT_PAYMENT_SECRET
    };
    if secrets.iter().any(is_public) {
        return Some(Weakness::Public);
    }
    let is_short = |secret: &String| secret.len() < SHORT;
    secrets.iter().any(is_short).then_some(Weakness::Short)
}

impl Reader<'_> {
    /// Refuses settings by which others could reach a process with the public secrets. It looks at
    /// the values as given, even if they are wrong in themselves.
    pub(crate) fn refuse_exposure(&mut self) {
        for (name, how) in self.exposures() {
            self.wrong(
                name,
                format_args!(
                    "{how}, so the public development secrets are refused: set \
                     STOREFRONT_WEBHOOK_SECRET and PAYMENT_WEBHOOK_SECRET to your own, or unset it"
                ),
            );
        }
    }

    /// The settings by which others can reach a process, and how.
    pub(crate) fn exposures(&self) -> Vec<(&'static str, &'static str)> {
        let given = |name| self.settings.get(name).map(str::trim);
        let is_elsewhere = |url: &str| !url.starts_with("http://") || !is_loopback(url);
        let is_server = |url: &str| !url.starts_with("sqlite://");
        let address = given("LISTEN_ADDR").and_then(|it| it.parse::<SocketAddr>().ok());
        let console = given("CONSOLE_ADDR").and_then(|it| it.parse::<SocketAddr>().ok());
        let elsewhere = "is not an http:// address of this machine alone";
        let exposures = [
            (
                "LISTEN_ADDR",
                address.is_some_and(|address| !address.ip().is_loopback()),
                "is not loopback",
            ),
            (
                "PUBLIC_URL",
                given("PUBLIC_URL").is_some_and(is_elsewhere),
                elsewhere,
            ),
            (
                "CONSOLE_ADDR",
                console.is_some_and(|address| !address.ip().is_loopback()),
                "is not loopback",
            ),
            (
                "CONSOLE_URL",
                given("CONSOLE_URL").is_some_and(is_elsewhere),
                elsewhere,
            ),
            (
                "QR_BASE_URL",
                given("QR_BASE_URL").is_some_and(is_elsewhere),
                elsewhere,
            ),
            (
                "TRUSTED_PROXIES",
                given("TRUSTED_PROXIES").is_some(),
                "is set",
            ),
            (
                "DATABASE_URL",
                given("DATABASE_URL").is_some_and(is_server),
                "is a server",
            ),
            ("AMQP_URL", given("AMQP_URL").is_some(), "is set"),
        ];
        let so = exposures.into_iter().filter(|(_, is_so, _)| *is_so);
        so.map(|(name, _, how)| (name, how)).collect()
    }
}
