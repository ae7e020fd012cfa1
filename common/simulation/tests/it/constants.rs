//! The model repeats some private constants of ingress and workers. They are compared with the sources.

/// A file, and its text.
type Source = (&'static str, &'static str);

const SWEEP: Source = (
    "workers/src/sweep.rs",
    include_str!("../../../../workers/src/sweep.rs"),
);
const CALL: Source = (
    "workers/src/call.rs",
    include_str!("../../../../workers/src/call.rs"),
);
const RUN: Source = (
    "workers/src/run.rs",
    include_str!("../../../../workers/src/run.rs"),
);
const PUBLISH: Source = (
    "workers/src/publish.rs",
    include_str!("../../../../workers/src/publish.rs"),
);
const WEBHOOKS: Source = (
    "workers/src/webhooks.rs",
    include_str!("../../../../workers/src/webhooks.rs"),
);
const HANDLERS: Source = (
    "workers/src/handlers/mod.rs",
    include_str!("../../../../workers/src/handlers/mod.rs"),
);
const INTAKE: Source = (
    "ingress/src/intake.rs",
    include_str!("../../../../ingress/src/intake.rs"),
);
const RABBITMQ: Source = (
    "common/bus/src/rabbitmq.rs",
    include_str!("../../../bus/src/rabbitmq.rs"),
);

/// What the model takes from each file. Where the model has fewer messages, calls or rows at a time than the product,
/// it says so beside its own constant.
const SAME: [(Source, &[&str]); 8] = [
    (
        SWEEP,
        &[
            "const PAUSE: Duration = Duration::from_millis(100);",
            "const IDLE_PAUSE: Duration = Duration::from_millis(250);",
            "const IDLE_REST: Duration = Duration::from_millis(750);",
            "const LOST_AFTER: Duration = Duration::from_secs(3);",
            "const LOST_AT_LATEST: Duration = Duration::from_secs(30);",
            "const WRONG_CLOCK: Duration = Duration::from_mins(1);",
            "const LEASE: Duration = Duration::from_secs(3);",
            "const RENEWED: Duration = Duration::from_secs(2);",
        ],
    ),
    (CALL, &["const NO_ROOM: Duration = Duration::from_secs(1);"]),
    (
        RUN,
        &["const JOB_DEADLINE: Duration = Duration::from_secs(30);"],
    ),
    (
        PUBLISH,
        &[
            "const LEASE_LENGTH: Duration = Duration::from_secs(10);",
            "const RENEW_AFTER: Duration = Duration::from_secs(3);",
            "const WAIT_FOR_LEASE: Duration = Duration::from_secs(3);",
        ],
    ),
    (
        WEBHOOKS,
        &[
            "const LEASE_LENGTH: Duration = Duration::from_secs(10);",
            "const AGAIN: Duration = Duration::from_secs(5);",
            "const BEHIND: Duration = Duration::from_hours(10 * 365 * 24);",
        ],
    ),
    (HANDLERS, &["const KEYS_A_RUN: usize = 2;"]),
    (
        INTAKE,
        &[
            "const STORE_DEADLINE: Duration = Duration::from_secs(1);",
            "const ANSWER_DEADLINE: Duration = Duration::from_millis(1300);",
        ],
    ),
    (RABBITMQ, &["const DELIVERY_LIMIT: i32 = 20;"]),
];

#[test]
fn the_model_has_the_constants_of_the_product() {
    for ((file, text), constants) in SAME {
        for constant in constants {
            assert!(
                text.contains(constant),
                "{file} no longer has `{constant}`: change the model too"
            );
        }
    }
}
