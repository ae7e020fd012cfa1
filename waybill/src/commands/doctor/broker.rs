//! Checks of the broker: whether the exchanges and queues exist with the right arguments, and
//! whether workers consume from the queues.

use std::time::Duration;

use bus::{Holds, QueueState};
use config::Config;
use domain::job::Queue;
use reqwest::Url;

use tokio::time::timeout;

use super::{Finding, machine};

/// With more messages than this in a queue, the workers do not keep up.
const MANY: u32 = 10_000;

const ONE_IS_AWAY: &str = "Processes use the other servers of AMQP_URL meanwhile. Bring this one back before another \
                           one goes.";

/// A server answers at once about its queues, unless one of them has no leader.
const INSPECTED: Duration = Duration::from_secs(3);

const WAITS: &str = "Webhooks are accepted meanwhile, and their jobs wait in the database. Bring the servers \
                     back; processes then go on by themselves.";

pub async fn look(config: &Config) -> Vec<Finding> {
    let Some(url) = &config.amqp_url else {
        return vec![Finding::ok(
            "broker",
            "not set: the bus is within the process, which is right for `waybill` and `waybill \
             serve`",
        )];
    };
    let advice = "Is RabbitMQ running there? Check AMQP_URL: host, user, password and vhost. \
                  Meanwhile nothing is lost, and work is found some seconds late.";
    let servers: Vec<&str> = url.split(',').map(str::trim).collect();
    let mut silent = Vec::new();
    for server in &servers {
        silent.extend(listens(server).await.err());
    }
    if silent.len() == servers.len() {
        return vec![Finding::failed("broker", silent.join("; "), advice)];
    }
    if silent.len() * 2 > servers.len() {
        let found = format!(
            "{} of {} servers are away, so no queue has a majority: {}",
            silent.len(),
            servers.len(),
            silent.join("; ")
        );
        return vec![Finding::failed("broker", found, WAITS)];
    }
    let mut findings: Vec<Finding> = silent
        .into_iter()
        .map(|problem| Finding::warning("broker", problem, ONE_IS_AWAY))
        .collect();
    match timeout(INSPECTED, bus::inspect(url, &config.amqp_prefix)).await {
        Err(_) => {
            let found = "it lets clients in and does not answer about its queues, as when a majority of \
                         its cluster is away and a queue has no leader";
            findings.push(Finding::failed("broker", found, WAITS));
        }
        Ok(Err(error)) => {
            let found = format!("cannot be used: {error:#}");
            findings.push(Finding::failed("broker", found, advice));
        }
        Ok(Ok(topology)) => {
            findings.push(exchanges(&topology.missing_exchanges));
            let queues = Queue::ALL.into_iter().zip(&topology.queues);
            findings.extend(queues.map(|(of, found)| queue(of, found)));
            findings.extend(topology.dead.iter().map(dead_letters));
        }
    }
    findings
}

async fn listens(server: &str) -> Result<(), String> {
    let Ok(url) = Url::parse(server) else {
        return Ok(());
    };
    let Some(host) = url.host_str() else {
        return Ok(());
    };
    let usual = if url.scheme() == "amqps" { 5671 } else { 5672 };
    machine::connects(host, url.port().unwrap_or(usual)).await
}

fn exchanges(missing: &[String]) -> Finding {
    if missing.is_empty() {
        return Finding::ok("broker", "connected; its exchanges are there");
    }
    Finding::failed(
        "broker",
        format!("connected; missing: exchanges {}", missing.join(", ")),
        "Start or restart any process of Waybill: each declares what is missing. If they are \
         running, check that AMQP_URL and AMQP_PREFIX are the same everywhere.",
    )
}

fn queue(of: Queue, queue: &QueueState) -> Finding {
    const CHECK: &str = "queue";
    let name = &queue.name;
    let Some(holds) = queue.holds else {
        return Finding::failed(
            CHECK,
            format!("{name} is missing"),
            "Start or restart any process of Waybill: each declares what is missing. What was \
             in it is in the database, and workers are notified of it again.",
        );
    };
    let Holds {
        messages,
        consumers,
        is_foreign,
    } = holds;
    let found = format!("{name}: {messages} messages, {consumers} consumers");
    if is_foreign {
        return Finding::failed(
            CHECK,
            format!("{found}; made with other arguments than ours"),
            "Delete the queue when it is empty; any process of Waybill declares it anew. Or set \
             another AMQP_PREFIX.",
        );
    }
    if consumers == 0 && of == Queue::Endpoints {
        // Whether there are endpoints, the check of the database knows.
        return Finding::ok(
            CHECK,
            format!("{found}; only endpoints of webhooks need one"),
        );
    }
    if consumers == 0 {
        return Finding::warning(
            CHECK,
            found,
            "No worker listens to it: start the worker of this queue.",
        );
    }
    if messages > MANY {
        return Finding::warning(CHECK, found, "Start more workers of this queue.");
    }
    Finding::ok(CHECK, found)
}

fn dead_letters(queue: &QueueState) -> Finding {
    const CHECK: &str = "dead letters";
    match queue.holds {
        None => Finding::failed(
            CHECK,
            format!("{} is missing", queue.name),
            "Start or restart any process of Waybill: each declares what is missing.",
        ),
        Some(holds) if holds.messages > 0 => Finding::warning(
            CHECK,
            format!("{}: {} notes of jobs that died", queue.name, holds.messages),
            "They are ids alone, and may be of jobs that are done by now: `waybill dead list` \
             knows. Once nothing is dead, `waybill dead requeue` and `discard` empty it.",
        ),
        Some(_) => Finding::ok(CHECK, format!("{}: empty", queue.name)),
    }
}
