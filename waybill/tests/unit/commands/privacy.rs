//! Tests of what is private in `src/commands/privacy.rs`.

use super::*;

#[test]
fn days_are_rounded_down_so_that_nobody_thinks_to_have_more() {
    let entry = |left: i64| RequestEntry {
        due_at: Timestamp(left),
        ..request()
    };
    let now = Timestamp(0);
    let hour = 3_600_000;
    assert_eq!(left(&entry(30 * 24 * hour), now), "30.0");
    assert_eq!(left(&entry(30 * 24 * hour - 1), now), "29.9");
    assert_eq!(left(&entry(hour), now), "0.0");
    assert_eq!(left(&entry(-1), now), "-0.1");
    assert_eq!(left(&entry(-36 * hour), now), "-1.5");
    let done = RequestEntry {
        finished_at: Some(now),
        ..entry(hour)
    };
    assert_eq!(left(&done, now), "-");
}

fn request() -> RequestEntry {
    RequestEntry {
        id: Uuid::nil(),
        topic: "customers/redact".into(),
        shop: "shop.example".into(),
        customer_id: None,
        customer_id_text: None,
        repeats: None,
        state: "received".into(),
        code: None,
        received_at: Timestamp(0),
        due_at: Timestamp(0),
        held_until: None,
        living_at: None,
        finished_at: None,
        warned_at: None,
        alarmed_at: None,
        overdue_at: None,
        attempts: 0,
        next_run_at: None,
        last_error: None,
        progress: Value::Null,
        held: None,
        decided: None,
        export: None,
        receipt: None,
    }
}
