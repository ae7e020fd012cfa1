//! Tests of what is private in `src/rabbitmq/servers.rs`.

use super::*;

#[test]
fn what_a_url_does_not_set_is_added() {
    let plain = server(" amqp://rabbit:5672/%2f").unwrap();
    assert_eq!(plain.query.heartbeat, Some(HEARTBEAT));
    assert_eq!(plain.query.frame_max, Some(FRAME_MAX));
    let own = server("amqp://rabbit/%2f?heartbeat=30&frame_max=131072").unwrap();
    assert_eq!(own.query.heartbeat, Some(30));
    assert_eq!(own.query.frame_max, Some(131_072));
}
