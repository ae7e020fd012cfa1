//! Check of the service itself. Without a broker the service is asked on `LISTEN_ADDR` of this
//! machine; with one it may be anywhere, so it is asked at `PUBLIC_URL`.

use std::net::Ipv4Addr;
use std::time::Duration;

use config::Config;

use super::Finding;
use crate::commands::client;

const DEADLINE: Duration = Duration::from_secs(3);

pub async fn look(config: &Config) -> Vec<Finding> {
    const CHECK: &str = "service";
    let base = if config.amqp_url.is_some() {
        config.public_url.clone()
    } else {
        let mut address = config.listen_addr;
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        format!("http://{address}")
    };
    let url = format!("{base}/readyz");
    let answer = match client(&url, DEADLINE) {
        Ok(client) => client.get(&url).send().await.ok(),
        Err(_) => None,
    };
    let Some(answer) = answer else {
        return vec![Finding::warning(
            CHECK,
            format!("nothing answers on {base}"),
            "Start `waybill`, `waybill serve` or `waybill-ingress`. If it runs, check LISTEN_ADDR \
             and PUBLIC_URL here: they may be set otherwise there.",
        )];
    };
    let status = answer.status();
    let said = answer.text().await.unwrap_or_default();
    vec![if !status.is_success() {
        Finding::failed(
            CHECK,
            format!("{base} answers {} to /readyz", status.as_u16()),
            "It takes no deliveries, and providers send them again later; its log says why.",
        )
    } else if said.contains("degraded") {
        Finding::warning(
            CHECK,
            format!("{base} is ready, without its broker"),
            "Deliveries are accepted and wait in the database; mend the broker.",
        )
    } else {
        Finding::ok(CHECK, format!("{base} is ready"))
    }]
}
