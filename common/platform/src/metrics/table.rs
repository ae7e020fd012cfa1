//! Every metric there is: its type, its labels, what it counts, and which process shows it.

use By::{Every, Ingress, Worker};

/// The processes that show a metric. `waybill` and `waybill serve` are ingress and worker in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Every,
    Ingress,
    Worker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub by: By,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

type Text = &'static str;

const fn counter(by: By, name: Text, labels: &'static [Text], help: Text) -> Metric {
    metric(Kind::Counter, by, name, labels, help)
}

const fn gauge(by: By, name: Text, labels: &'static [Text], help: Text) -> Metric {
    metric(Kind::Gauge, by, name, labels, help)
}

const fn histogram(by: By, name: Text, labels: &'static [Text], help: Text) -> Metric {
    metric(Kind::Histogram, by, name, labels, help)
}

const fn metric(kind: Kind, by: By, name: Text, labels: &'static [Text], help: Text) -> Metric {
    Metric {
        name,
        kind,
        by,
        labels,
        help,
    }
}

/// In the order of the tables in docs/metrics.md.
pub const ALL: &[Metric] = &[
    gauge(
        Every,
        "waybill_build_info",
        &["version", "database", "bus"],
        "Always 1: the version, and what it runs on",
    ),
    gauge(
        Every,
        "waybill_database_up",
        &[],
        "1 when the database answered last time and takes writes, else 0",
    ),
    gauge(
        Every,
        "waybill_database_connections",
        &["state"],
        "Connections of this process to the database",
    ),
    gauge(
        Every,
        "waybill_database_connections_max",
        &[],
        "The most connections that this process opens",
    ),
    histogram(
        Every,
        "waybill_database_acquire_seconds",
        &[],
        "How long a statement waited for a connection",
    ),
    gauge(
        Every,
        "waybill_erasure_journal_current",
        &[],
        "1 while the database knows every erasure of the journal, else 0",
    ),
    gauge(
        Every,
        "waybill_broker_up",
        &[],
        "1 while the broker takes messages, else 0; absent without a broker",
    ),
    counter(
        Every,
        "waybill_broker_connects_total",
        &["connection", "outcome"],
        "Tries to connect to the broker",
    ),
    counter(
        Every,
        "waybill_bus_messages_total",
        &["queue", "outcome"],
        "Messages with job ids handed to the bus",
    ),
    gauge(
        Every,
        "waybill_queue_ready_jobs",
        &["queue"],
        "Jobs that are due, counted up to 10000 of a kind",
    ),
    gauge(
        Every,
        "waybill_queue_oldest_ready_seconds",
        &["queue"],
        "Age of the oldest of them, else 0",
    ),
    gauge(
        Every,
        "waybill_queue_scheduled_jobs",
        &["queue"],
        "Jobs deferred or to be retried, counted up to 10000 of a kind",
    ),
    gauge(
        Every,
        "waybill_queue_dead_jobs",
        &["queue"],
        "Dead jobs, counted up to 10000",
    ),
    gauge(
        Every,
        "waybill_events_waiting",
        &[],
        "Events that have not gone out, counted up to 10000",
    ),
    gauge(
        Every,
        "waybill_events_oldest_waiting_seconds",
        &[],
        "Age of the oldest of them, else 0",
    ),
    gauge(
        Every,
        "waybill_events_held_back_seconds",
        &[],
        "How long readers of events have waited for the end of a transaction that has written some, else 0",
    ),
    histogram(
        Every,
        "waybill_provider_call_seconds",
        &["provider", "operation", "outcome"],
        "Calls to providers' APIs, each try for itself",
    ),
    counter(
        Worker,
        "waybill_reconciled_deliveries_total",
        &["source", "connection", "kind", "age", "cause"],
        "Deliveries that never came and were found at the provider, by how long they were missing (hour, day, older) and the likely cause",
    ),
    counter(
        Every,
        "waybill_redaction_failures_total",
        &[],
        "Values withheld from the log",
    ),
    gauge(
        Every,
        "waybill_provider_breaker_open",
        &["provider"],
        "1 while a provider that did not answer is left alone, else 0",
    ),
    gauge(
        Every,
        "waybill_connections",
        &[],
        "Open connections of clients",
    ),
    counter(
        Every,
        "waybill_connections_cut_total",
        &["reason"],
        "Connections that were refused or ended",
    ),
    counter(
        Every,
        "process_cpu_seconds_total",
        &[],
        "User and system time",
    ),
    gauge(
        Every,
        "process_resident_memory_bytes",
        &[],
        "Resident memory",
    ),
    gauge(Every, "process_virtual_memory_bytes", &[], "Virtual memory"),
    gauge(Every, "process_open_fds", &[], "Open file descriptors"),
    gauge(
        Every,
        "process_max_fds",
        &[],
        "The most file descriptors it may open",
    ),
    gauge(Every, "process_threads", &[], "Threads"),
    gauge(
        Every,
        "process_start_time_seconds",
        &[],
        "When it started, in seconds since 1970",
    ),
    histogram(
        Ingress,
        "waybill_http_request_seconds",
        &["route", "method", "status"],
        "Requests, by template of the route and class of status",
    ),
    gauge(
        Ingress,
        "waybill_event_readers",
        &[],
        "Requests that wait for events, or stream events or deliveries",
    ),
    counter(
        Ingress,
        "waybill_deliveries_accepted_total",
        &["source", "known"],
        "Deliveries committed",
    ),
    counter(
        Ingress,
        "waybill_delivery_api_versions_total",
        &["source", "version"],
        "Deliveries committed, by the version of the provider's API",
    ),
    counter(
        Ingress,
        "waybill_deliveries_duplicate_total",
        &["source"],
        "Deliveries whose id was known",
    ),
    counter(
        Ingress,
        "waybill_deliveries_held_total",
        &["source", "kind"],
        "Deliveries whose id was known with another body, which wait for `waybill dead requeue`",
    ),
    counter(
        Ingress,
        "waybill_console_sign_ins_refused_total",
        &[],
        "Refused tries to sign in to the console",
    ),
    counter(
        Ingress,
        "waybill_deliveries_refused_total",
        &["source", "reason"],
        "Deliveries refused",
    ),
    counter(
        Ingress,
        "waybill_connection_deliveries_total",
        &["source", "connection", "outcome"],
        "Deliveries by connection: the 100 that were added first, all others as `other`, and as `default` also what named none",
    ),
    counter(
        Ingress,
        "waybill_deliveries_not_understood_total",
        &["source", "profile"],
        "Deliveries accepted of whose body nothing can be made",
    ),
    counter(
        Worker,
        "waybill_deliveries_changed_total",
        &["kind", "member", "change"],
        "Deliveries that lack a member that was always there, or have one that cannot be read or has an unknown status",
    ),
    counter(
        Ingress,
        "waybill_signatures_refused_total",
        &["source", "reason"],
        "Signatures refused",
    ),
    counter(
        Ingress,
        "waybill_deliveries_of_another_profile_total",
        &["source", "header"],
        "Deliveries refused with a header of another profile",
    ),
    counter(
        Ingress,
        "waybill_old_secret_matches_total",
        &["source", "secret"],
        "Signatures made with a secret that is not the first of the list",
    ),
    counter(
        Ingress,
        "waybill_privacy_requests_repeated_total",
        &["topic"],
        "Privacy requests with the body of an earlier one",
    ),
    counter(
        Ingress,
        "waybill_login_polls_total",
        &["outcome"],
        "Polls of device logins",
    ),
    counter(
        Ingress,
        "waybill_tokens_asked_total",
        &["outcome"],
        "Tokens about which the identity provider was asked",
    ),
    histogram(
        Ingress,
        "waybill_intake_batch_size",
        &[],
        "Deliveries in one batch",
    ),
    histogram(
        Ingress,
        "waybill_intake_commit_seconds",
        &[],
        "How long it took to store a batch and commit it",
    ),
    counter(
        Ingress,
        "waybill_intake_failures_total",
        &[],
        "Batches that could not be committed",
    ),
    gauge(
        Ingress,
        "waybill_intake_waiting",
        &[],
        "Deliveries that wait for a batch, at most 4096 in each of two lanes",
    ),
    gauge(
        Every,
        "waybill_endpoints",
        &["state"],
        "Endpoints, RabbitMQ too, by state: active, paused, failing or gone",
    ),
    gauge(
        Every,
        "waybill_webhooks_behind_events",
        &[],
        "Events that the slowest active endpoint has not got yet, counted up to 10000",
    ),
    counter(
        Worker,
        "waybill_webhooks_sent_total",
        &["outcome"],
        "Webhooks sent to endpoints, by the answer",
    ),
    counter(
        Worker,
        "waybill_jobs_run_total",
        &["queue", "kind", "outcome"],
        "Runs of jobs by what came of them",
    ),
    histogram(
        Worker,
        "waybill_run_seconds",
        &["queue", "kind"],
        "How long a run of up to 64 jobs, or of one call, took",
    ),
    counter(
        Worker,
        "waybill_bus_messages_received_total",
        &["queue", "redelivered"],
        "Messages with job ids that came from the bus",
    ),
    counter(
        Worker,
        "waybill_order_bodies_repeated_total",
        &["topic"],
        "Deliveries whose body was accepted under another topic before",
    ),
    counter(
        Worker,
        "waybill_order_topics_refuted_total",
        &["topic"],
        "Topics that the storefront's API did not confirm",
    ),
    counter(
        Worker,
        "waybill_events_published_total",
        &[],
        "Events that the broker has confirmed",
    ),
    counter(
        Worker,
        "waybill_privacy_deadline_notices_total",
        &["notice"],
        "Privacy requests reported as near or past their deadline",
    ),
    gauge(
        Worker,
        "waybill_privacy_requests_open",
        &[],
        "Privacy requests neither done nor cancelled",
    ),
    gauge(
        Worker,
        "waybill_privacy_next_deadline_seconds",
        &[],
        "Time left for the most urgent of them; NaN when none is open",
    ),
];
