//! Checks of the providers' APIs: whether they answer, accept our credentials, and have the same
//! time. The finding distinguishes a provider that refuses the credential from one that does not
//! answer.

use config::Config;
use operators::findings::clock;
use platform::clock::Clock;
use providers::identity::Identity;
use providers::payment::Payment;
use providers::storefront::Storefront;
use providers::{ProbeError, Probed};

use super::Finding;

/// A provider to be checked, and the names of its settings.
struct Asked {
    check: &'static str,
    clock: &'static str,
    whose: &'static str,
    address: &'static str,
    credential: &'static str,
}

pub async fn storefront(config: &Config) -> Vec<Finding> {
    let asked = Asked {
        check: "storefront API",
        clock: "storefront clock",
        whose: "the storefront's",
        address: "STOREFRONT_API_URL",
        credential: "STOREFRONT_API_TOKEN",
    };
    let Some(api) = &config.storefront.api else {
        return vec![not_set(config, &asked, "events alone ask for fulfilments")];
    };
    let shop = config.storefront.shops.first().map_or("", String::as_str);
    let storefront = Storefront::new(api, config.storefront.profile, &Clock::system());
    let probed = storefront.probe(shop).await;
    asked.judge(&api.url, probed, true)
}

pub async fn payment(config: &Config) -> Vec<Finding> {
    let asked = Asked {
        check: "payment API",
        clock: "payment clock",
        whose: "the payment provider's",
        address: "PAYMENT_API_URL",
        credential: "PAYMENT_API_KEY",
    };
    let Some(api) = &config.payment.api else {
        return vec![not_set(config, &asked, "events alone ask for refunds")];
    };
    let probed = Payment::new(api, &Clock::system()).probe().await;
    asked.judge(&api.url, probed, true)
}

pub async fn identity(config: &Config) -> Vec<Finding> {
    let asked = Asked {
        check: "identity provider",
        clock: "identity clock",
        whose: "the identity provider's",
        address: "GITHUB_API_URL",
        credential: "GITHUB_CLIENT_ID and GITHUB_CLIENT_SECRET",
    };
    let Some(settings) = &config.identity else {
        return vec![not_set(config, &asked, "nobody can log in")];
    };
    let probed = Identity::new(settings, &Clock::system()).probe().await;
    asked.judge(&settings.api_url, probed, settings.client_secret.is_some())
}

/// The finding of a provider that is not set, and what that means.
fn not_set(config: &Config, asked: &Asked, means: &str) -> Finding {
    let means = if config.development {
        "`waybill` without a command takes its stand-in"
    } else {
        means
    };
    Finding::ok(asked.check, format!("not set: {means}"))
}

impl Asked {
    fn judge(
        &self,
        url: &str,
        probed: Result<Probed, ProbeError>,
        is_proved: bool,
    ) -> Vec<Finding> {
        let probed = match probed {
            Ok(probed) => probed,
            Err(probe_error) => {
                let advice = format!("Is {} right, and may this machine reach it?", self.address);
                return vec![Finding::failed(
                    self.check,
                    format!("{url} {probe_error}"),
                    &advice,
                )];
            }
        };
        let mut findings = vec![self.answer(url, probed, is_proved)];
        if let Some(theirs) = probed.date {
            let ours = Clock::system().now();
            findings.push(clock::compare(self.clock, self.whose, theirs, ours));
        }
        findings
    }

    fn answer(&self, url: &str, probed: Probed, is_proved: bool) -> Finding {
        let status = probed.status;
        if !is_proved && (probed.is_good() || probed.is_refused()) {
            return Finding::ok(self.check, format!("{url} answers"));
        }
        if probed.is_refused() {
            return Finding::failed(
                self.check,
                format!("{url} answers, and refuses our credential ({status})"),
                &format!(
                    "Check {}: another environment's, revoked, or without the permission for \
                     this.",
                    self.credential
                ),
            );
        }
        if probed.is_good() {
            return Finding::ok(
                self.check,
                format!("{url} answers, and takes our credential"),
            );
        }
        let advice = match status {
            500.. | 429 => "The provider is in trouble, or has had enough of us; look at its \
                            status page. Calls are tried again by themselves."
                .to_owned(),
            _ => format!("Is {} the address of its API?", self.address),
        };
        Finding::warning(self.check, format!("{url} answered {status}"), &advice)
    }
}
