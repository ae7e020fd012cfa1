//! The table of conditions.

use std::time::Duration;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::Severity;
use crate::names::{Unknown, unlisted};

/// A condition that needs a person. Its alert for Prometheus has its name with `Waybill` before it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unlisted::<Condition>)]
pub enum Condition {
    Down,
    DeliveriesNotAccepted,
    DatabaseAway,
    DatabaseNotServed,
    DatabaseHindered,
    DiskFull,
    BrokerAway,
    QueueStandsStill,
    JobsDead,
    JobsFail,
    EventsStandStill,
    SignaturesRefused,
    DeliveriesOverRate,
    DeliveriesAllRefused,
    DeliveriesNotUnderstood,
    DeliveriesChanged,
    NothingCame,
    DeliveriesMissed,
    ReconciliationFails,
    SubscriptionsWrong,
    RefundFailed,
    PaymentDisputed,
    EndpointPaused,
    WebhooksBehind,
    WebhooksNotSent,
    ProviderSilent,
    ProviderRefusesCredential,
    PrivacyRequestFailed,
    PrivacyRequestHeld,
    ShopErasureNear,
    PrivacyDeadlineNear,
    PrivacyDeadlinePressing,
    SlowCommits,
    ConnectionsShort,
    FileDescriptorsShort,
    BackupOld,
    ClientsRefused,
}

/// What the table says of a condition.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub severity: Severity,
    /// What is the matter, in a sentence, in which `{}` stands for what it is about.
    pub summary: &'static str,
    /// The label of Prometheus in the place of `{}`; empty when nothing stands there.
    pub label: &'static str,
    /// What to do.
    pub mend: &'static str,
    /// The command that shows more.
    pub command: &'static str,
    /// The page of the console that shows more.
    pub page: &'static str,
    /// Whether the workers look at it. What they cannot see, or cannot report, is left to Prometheus.
    pub is_looked_at: bool,
    /// How long it is seen before it begins.
    pub after: Duration,
    /// The rules of its alert; none when no metric says it.
    pub rules: &'static [Rule],
}

/// A rule for Prometheus.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub expr: &'static str,
    /// How long it must hold; empty for none.
    pub after: &'static str,
    /// The label `hours`, where one condition has several rules.
    pub hours: &'static str,
}

macro_rules! rule {
    ($expr:expr, $after:literal $(,)?) => {
        Rule {
            expr: $expr,
            after: $after,
            hours: "",
        }
    };
}

const PAGE: Row = Row {
    severity: Severity::Page,
    summary: "",
    label: "",
    mend: "",
    command: "waybill doctor",
    page: "/",
    is_looked_at: true,
    after: Duration::ZERO,
    rules: &[],
};

const TICKET: Row = Row {
    severity: Severity::Ticket,
    ..PAGE
};

/// The same hours of a week ago, and of two weeks ago or of yesterday, brought more than thirty. So a busy shop alarms
/// after an hour and a slow one after half a day.
macro_rules! nothing_came {
    ($hours:literal) => {
        Rule {
            expr: concat!(
                "source:waybill_deliveries_accepted_total:increase",
                $hours,
                "h == 0 \
                 and source:waybill_deliveries_accepted_total:increase",
                $hours,
                "h offset 1w > 30 \
                 and (source:waybill_deliveries_accepted_total:increase",
                $hours,
                "h offset 1d > 30 \
                 or source:waybill_deliveries_accepted_total:increase",
                $hours,
                "h offset 2w > 30)"
            ),
            after: "",
            hours: $hours,
        }
    };
}

impl Condition {
    pub const ALL: [Condition; 37] = *Condition::VARIANTS.as_array().unwrap();

    /// The table. Each condition is named in it, so that a new one does not compile without its row.
    #[expect(clippy::too_many_lines, reason = "it is a table")]
    pub const fn row(self) -> Row {
        match self {
            Condition::Down => Row {
                summary: "No Waybill process can be scraped",
                mend: "Start it; look at the end of its log.",
                is_looked_at: false,
                rules: &[rule!("absent(waybill_build_info)", "2m")],
                ..PAGE
            },
            Condition::DeliveriesNotAccepted => Row {
                summary: "Deliveries are answered 503 because they cannot be stored; providers retry for a while, then give up",
                mend: "Look at the database. Nothing is lost as long as the providers retry, which is hours to days.",
                is_looked_at: false,
                rules: &[rule!(
                    r#"sum(rate(waybill_deliveries_refused_total{reason=~"unavailable|share"}[5m])) > 0"#,
                    "2m",
                )],
                ..PAGE
            },
            Condition::DatabaseAway => Row {
                summary: "A process cannot reach the database, or may not write to it",
                mend: "Look at the database. Nothing is lost as long as the providers retry, which is hours to days.",
                is_looked_at: false,
                rules: &[rule!("min(waybill_database_up) == 0", "2m")],
                ..PAGE
            },
            Condition::DatabaseNotServed => Row {
                summary: "A process does not serve the database, because it cannot see that it knows every erasure of the journal",
                mend: "`waybill doctor` names what differs between the database and the journal of erasures, and the mend. \
                       Deliveries are accepted meanwhile, and wait.",
                after: Duration::from_mins(1),
                rules: &[rule!("min(waybill_erasure_journal_current) == 0", "1m")],
                ..PAGE
            },
            Condition::DatabaseHindered => Row {
                summary: "Something hinders the database: {}; see waybill doctor",
                mend: "`waybill doctor` says which transaction, server or clock it is, and what ends it.",
                after: Duration::from_mins(5),
                ..TICKET
            },
            Condition::DiskFull => Row {
                summary: "The disk on which data is kept is nearly full",
                mend: "Make room, or move the data: when the disk is full nothing is accepted.",
                ..PAGE
            },
            Condition::BrokerAway => Row {
                summary: "A process cannot reach the broker; deliveries are accepted, and wait in the database",
                mend: "Look at RabbitMQ. Deliveries are accepted meanwhile, and are processed when it is back.",
                after: Duration::from_mins(5),
                rules: &[rule!("min(waybill_broker_up) == 0", "5m")],
                ..PAGE
            },
            Condition::QueueStandsStill => Row {
                summary: "Jobs of the queue {} have been due for over five minutes; do its workers run?",
                label: "queue",
                mend: "Ask `/readyz` of the queue's workers, which says what is missing. If nothing is, start more workers.",
                page: "/deliveries?state=ready",
                rules: &[rule!(
                    "max by (queue) (waybill_queue_oldest_ready_seconds) > 300",
                    "5m",
                )],
                ..PAGE
            },
            Condition::JobsDead => Row {
                summary: "A {} job is dead; see waybill dead summary",
                label: "kind",
                mend: "`waybill dead summary` says what they died of; once that is mended, `waybill dead requeue`.",
                command: "waybill dead summary",
                page: "/dead",
                rules: &[rule!(
                    r#"sum by (queue, kind) (increase(waybill_jobs_run_total{outcome="dead"}[1h])) > 0 or sum by (kind) (increase(waybill_deliveries_held_total[1h])) > 0"#,
                    "",
                )],
                ..TICKET
            },
            Condition::JobsFail => Row {
                summary: "More than a fifth of the runs of {} fail and are tried again",
                label: "kind",
                mend: "The log lines `a job failed and will be tried again` say why.",
                page: "/failing",
                is_looked_at: false,
                rules: &[rule!(
                    r#"sum by (queue, kind) (rate(waybill_jobs_run_total{outcome="retry"}[15m])) > 0.2 * sum by (queue, kind) (rate(waybill_jobs_run_total[15m]))"#,
                    "15m",
                )],
                ..TICKET
            },
            Condition::EventsStandStill => Row {
                summary: "Events do not go out; a queue bound to the exchange of events may refuse them",
                mend: "A queue that is bound to the exchange refuses messages or has lost its quorum (docs/events.md).",
                after: Duration::from_mins(5),
                rules: &[rule!(
                    "max(waybill_events_oldest_waiting_seconds) > 120",
                    "5m",
                )],
                ..PAGE
            },
            Condition::SignaturesRefused => Row {
                summary: "Signatures of {} are refused; compare the secret with the provider's",
                label: "source",
                mend: "Compare the signing secrets with the provider's. If they are right, somebody may be trying to forge deliveries.",
                command: "waybill refused summary",
                page: "/refused",
                rules: &[rule!(
                    "sum by (source) (rate(waybill_signatures_refused_total[10m])) > 0.1",
                    "10m",
                )],
                ..TICKET
            },
            Condition::DeliveriesOverRate => Row {
                summary: "Deliveries of {} were answered 429, because more came than a limit allows; see waybill refused summary",
                label: "source",
                mend: "`waybill refused summary` names the limit, which is then a setting to raise. If one shop cannot send so much, \
                       somebody repeats a captured delivery.",
                command: "waybill refused summary",
                page: "/refused",
                rules: &[rule!(
                    r#"sum by (source) (increase(waybill_deliveries_refused_total{reason="rate"}[1h])) > 0"#,
                    "",
                )],
                ..TICKET
            },
            // At low volume: too few for the rule of signatures, and too important to wait for. What has no signature at
            // all is left out, because strangers post it everywhere.
            Condition::DeliveriesAllRefused => Row {
                summary: "Twenty deliveries of {} were refused in a day and none was accepted; see waybill refused summary",
                label: "source",
                mend: "`waybill refused summary` names the setting that would take them; `waybill connect` waits for the first that is taken.",
                command: "waybill refused summary",
                page: "/refused",
                rules: &[rule!(
                    r#"(sum by (source) (increase(waybill_signatures_refused_total{reason!="missing"}[1d])) > 19 or sum by (source) (increase(waybill_deliveries_of_another_profile_total[1d])) > 19 or sum by (source) (increase(waybill_deliveries_refused_total{reason!~"signature|unavailable|share"}[1d])) > 19) unless on (source) sum by (source) (increase(waybill_deliveries_accepted_total[1d])) > 0"#,
                    "",
                )],
                ..PAGE
            },
            Condition::DeliveriesNotUnderstood => Row {
                summary: "Deliveries of {} are accepted and nothing can be made of them; see waybill jobs list",
                label: "profile",
                mend: "`waybill jobs list` and `waybill jobs show` say why nothing is made of them. Subscribe to the orders \
                       themselves (docs/connect.md).",
                command: "waybill jobs list",
                page: "/deliveries",
                rules: &[rule!(
                    "sum by (source, profile) (increase(waybill_deliveries_not_understood_total[1h])) > 0",
                    "",
                )],
                ..PAGE
            },
            Condition::DeliveriesChanged => Row {
                summary: "Deliveries have changed: {}; see waybill doctor",
                label: "member",
                mend: "The provider has changed its bodies, or somebody has cut the subscription to some of them. They are \
                       worked on as far as they are understood: look at an order of today, and set the API version \
                       of the subscription back if it is wrong. After seven days the new shape is the usual one.",
                rules: &[rule!(
                    "sum by (kind, member) (increase(waybill_deliveries_changed_total[1h])) > 0",
                    "",
                )],
                ..TICKET
            },
            Condition::NothingCame => Row {
                summary: "No delivery of {} comes, in hours in which this shop always has some; see waybill connect",
                label: "source",
                mend: "Look at the provider's page of webhooks: it may have switched them off, or cannot reach `PUBLIC_URL`. \
                       `waybill listen` shows what comes. Before a planned silence, silence this.",
                command: "waybill connect",
                page: "/live",
                rules: &[nothing_came!("1"), nothing_came!("3"), nothing_came!("12")],
                ..PAGE
            },
            Condition::DeliveriesMissed => Row {
                summary: "Deliveries of {} never came and were found at the provider; see waybill reconcile --status",
                label: "source",
                mend: "They are worked on now, only late. `waybill reconcile --status` has the likely cause: mend that, because \
                       whatever is not compared in time is lost.",
                command: "waybill reconcile --status",
                page: "/reconcile",
                rules: &[rule!(
                    "sum by (source) (increase(waybill_reconciled_deliveries_total{cause!=\"not_connected\"}[1h])) > 0",
                    "",
                )],
                ..TICKET
            },
            Condition::ReconciliationFails => Row {
                summary: "{} has not said for an hour what changed, so nobody knows whether deliveries are missing",
                label: "provider",
                mend: "`waybill reconcile --status` has the provider's answer. Mend the token, its rights or the address.",
                command: "waybill reconcile --status",
                page: "/reconcile",
                ..TICKET
            },
            Condition::SubscriptionsWrong => Row {
                summary: "Subscriptions of {} are wrong, so deliveries do not come; see waybill connect",
                label: "provider",
                mend: "`waybill connect PROVIDER --repair` mends them at the provider, after asking. It takes them away when \
                       deliveries fail for long: see to that first.",
                command: "waybill connect",
                page: "/reconcile",
                ..TICKET
            },
            Condition::RefundFailed => Row {
                summary: "A refund of the order {} failed, so its buyer waits for the money",
                mend: "Run its job again if it is dead, or give the money back in another way.",
                command: "waybill orders held",
                page: "/held",
                ..PAGE
            },
            Condition::PaymentDisputed => Row {
                summary: "The bank has taken the payment of the order {} back and has not decided",
                mend: "Answer the bank at the payment provider before it decides.",
                command: "waybill orders held",
                page: "/held",
                ..PAGE
            },
            Condition::EndpointPaused => Row {
                summary: "An endpoint of webhooks takes nothing, so no events are sent to it; see waybill endpoints list",
                mend: "`waybill endpoints list` and `show`: mend the endpoint, then `waybill endpoints resume`.",
                command: "waybill endpoints list",
                page: "/endpoints",
                rules: &[rule!(
                    r#"max by (state) (waybill_endpoints{state=~"failing|gone"}) > 0"#,
                    "",
                )],
                ..TICKET
            },
            Condition::WebhooksBehind => Row {
                summary: "An endpoint of webhooks does not keep up with the events; see waybill endpoints list",
                mend: "`waybill endpoints list` and `show`: mend the endpoint, or let it take more at a time.",
                command: "waybill endpoints list",
                page: "/endpoints",
                after: Duration::from_mins(15),
                rules: &[rule!(
                    "min_over_time(max(waybill_webhooks_behind_events)[15m:1m]) > 1000",
                    "15m",
                )],
                ..TICKET
            },
            Condition::WebhooksNotSent => Row {
                summary: "There are endpoints of webhooks, and no process sends to them",
                mend: "Start `waybill serve` or `waybill-endpoints`.",
                page: "/endpoints",
                after: Duration::from_mins(1),
                ..PAGE
            },
            Condition::ProviderSilent => Row {
                summary: "The {} provider has not answered for ten minutes; calls wait",
                label: "provider",
                mend: "Look at the provider's status page.",
                page: "/failing",
                is_looked_at: false,
                rules: &[rule!(
                    "max by (provider) (waybill_provider_breaker_open) == 1",
                    "10m",
                )],
                ..TICKET
            },
            Condition::ProviderRefusesCredential => Row {
                summary: "The {} provider does not take our credential; the log names the setting",
                label: "provider",
                mend: "Check the setting that the log names.",
                page: "/failing",
                is_looked_at: false,
                rules: &[rule!(
                    r#"sum by (provider) (increase(waybill_provider_call_seconds_count{outcome="misconfigured"}[10m])) > 0"#,
                    "",
                )],
                ..PAGE
            },
            Condition::PrivacyRequestFailed => Row {
                summary: "The privacy request {} failed, and its deadline goes on; see waybill privacy show",
                mend: "Mend what its last error says, and then `waybill privacy retry`: answering is a legal duty.",
                command: "waybill privacy list",
                page: "/privacy",
                ..PAGE
            },
            Condition::PrivacyRequestHeld => Row {
                summary: "The privacy request {} waits for a decision, and its deadline goes on; see waybill privacy show",
                mend: "Decide whom it means with `waybill privacy decide`.",
                command: "waybill privacy list",
                page: "/privacy",
                ..TICKET
            },
            Condition::ShopErasureNear => Row {
                summary: "A whole shop is to be erased by the request {}; see waybill privacy show",
                mend: "If the shop is in use, `waybill privacy cancel` keeps it until the erasure begins, and nothing brings it back after that.",
                command: "waybill privacy list",
                page: "/privacy",
                ..PAGE
            },
            Condition::PrivacyDeadlineNear => Row {
                summary: "A privacy request must be done within seven days; see waybill privacy list",
                mend: "`waybill privacy list` and `waybill privacy show` say why it is not done (docs/privacy.md).",
                command: "waybill privacy list",
                page: "/privacy",
                rules: &[rule!(
                    "min(waybill_privacy_next_deadline_seconds) < 7 * 86400",
                    "",
                )],
                ..TICKET
            },
            Condition::PrivacyDeadlinePressing => Row {
                summary: "A privacy request must be done within 48 hours, by law; see waybill privacy list",
                mend: "`waybill privacy list` and `waybill privacy show` say why it is not done (docs/privacy.md).",
                command: "waybill privacy list",
                page: "/privacy",
                rules: &[rule!(
                    "min(waybill_privacy_next_deadline_seconds) < 2 * 86400",
                    "",
                )],
                ..PAGE
            },
            Condition::SlowCommits => Row {
                summary: "One batch of deliveries in twenty takes over half a second to store; from a second on they are refused",
                mend: "Look at the database's disk and load.",
                is_looked_at: false,
                rules: &[rule!(
                    "histogram_quantile(0.95, sum by (le) (rate(waybill_intake_commit_seconds_bucket[5m]))) > 0.5",
                    "10m",
                )],
                ..TICKET
            },
            Condition::ConnectionsShort => Row {
                summary: "Statements wait for a connection to the database",
                mend: "Look at the database's disk and load.",
                is_looked_at: false,
                rules: &[rule!(
                    "histogram_quantile(0.95, sum by (le) (rate(waybill_database_acquire_seconds_bucket[5m]))) > 0.25",
                    "10m",
                )],
                ..TICKET
            },
            Condition::FileDescriptorsShort => Row {
                summary: "A process is about to run out of file descriptors",
                mend: "Raise the limit (`ulimit -n`), or find who holds connections open.",
                is_looked_at: false,
                rules: &[rule!(
                    "process_open_fds / process_max_fds > 0.8 and on (instance, job) waybill_build_info",
                    "10m",
                )],
                ..TICKET
            },
            Condition::BackupOld => Row {
                summary: "What came more than a week ago is in no backup of the database",
                mend: "`waybill backup FILE` makes one while the service runs. Keep it on another machine, and make one each night.",
                ..TICKET
            },
            Condition::ClientsRefused => Row {
                summary: "Connections are refused ({}): somebody holds many, or a proxy is not in TRUSTED_PROXIES",
                label: "reason",
                mend: "`network`: is there a proxy in front that `TRUSTED_PROXIES` does not name? `all`: the log names one client \
                       every so often; raise `MAX_CONNECTIONS`, or stop them in front.",
                is_looked_at: false,
                rules: &[rule!(
                    r#"sum by (reason) (increase(waybill_connections_cut_total{reason=~"network|all"}[10m])) > 0"#,
                    "10m",
                )],
                ..TICKET
            },
        }
    }

    /// The name of its alert.
    pub fn alert(self) -> String {
        format!("Waybill{self:?}")
    }

    /// What is the matter, with what it is about.
    pub fn summary(self, about: &str) -> String {
        self.row().summary.replace("{}", about)
    }
}
