//! Records as JSON: what a newer version wrote stays, what cannot be read is told from what is too new,
//! and no error says what stood in it.

use domain::payment::Event;
use domain::payment::record::{Part, Version};
use domain::payment::subscription::Record;
use domain::record::{Forget as _, Unreadable, read};
use serde_json::json;

fn written(record: &Record) -> String {
    serde_json::to_string(record).expect("a record")
}

fn part(text: &str) -> String {
    format!(r#"{{"version":{{"created":1,"event":"evt_1"}},"value":"{text}"}}"#)
}

#[test]
fn a_record_has_its_schema_and_what_is_known() {
    let record = Record {
        ended_at: Some(7),
        customer: None,
        pact_id: Some(Part {
            version: Version {
                created: 1,
                event: "evt_1".to_owned(),
            },
            value: "P".to_owned(),
        }),
        ..Record::default()
    };
    let text = format!(r#"{{"schema":1,"ended_at":7,"pact_id":{}}}"#, part("P"));
    assert_eq!(written(&record), text);
    assert_eq!(read(&text), Ok(record));
    let nothing: Record = read("{}").expect("a record");
    assert_eq!(written(&nothing), r#"{"schema":1}"#);
}

#[test]
fn what_a_newer_version_wrote_stays_as_it_is() {
    let unknown = r#""tomorrow":{"b":[1, 2.50],"a":1e400,"b":"\u0041"},"null":null"#;
    let text = format!(r#"{{"schema":1,{unknown},"ended_at":7,"customer":null}}"#);
    let mut record: Record = read(&text).expect("a record");
    let event = json!({
        "id": "evt_2", "created": 2, "type": "invoice.payment_succeeded",
        "data": {"object": {
            "id": "in_1", "amount_paid": 5, "currency": "usd", "subscription": "sub_1",
            "lines": {"data": [{"period": {"end": 9}}]},
        }},
    });
    let event = Event::read(event.to_string().as_bytes()).expect("an event");
    record.merge(Record::of(&event).expect("an invoice").1);
    let text = format!(
        r#"{{"schema":1,"invoices":{{"in_1":{{"made":2,"end":9}}}},"ended_at":7,{unknown}}}"#
    );
    assert_eq!(written(&record), text);
    assert_ne!(
        read(r#"{"invoices":{"in_1":{"made":2,"end":9}},"ended_at":7}"#),
        Ok(record.clone()),
        "they differ"
    );
    assert_eq!(
        format!("{:?}", read::<Record>(&text).expect("it").rest),
        "2 unknown members"
    );
    record.forget_person();
    let left = r#"{"schema":1,"invoices":{"in_1":{"made":2,"end":9}},"ended_at":7}"#;
    assert_eq!(
        written(&record),
        left,
        "what is unknown may be about the person"
    );
}

#[test]
fn a_record_that_cannot_be_read_says_where_and_never_what() {
    let newer = Unreadable::Newer { found: 2, known: 1 };
    assert_eq!(
        read::<Record>(r#"{"schema":2,"ended_at":"ada"}"#),
        Err(newer)
    );
    assert_eq!(read::<Record>(r#"{"ended_at":[],"schema":2}"#), Err(newer));
    let known: Record = read(r#"{"schema":0,"ended_at":7}"#).expect("an older one");
    assert_eq!(known.ended_at, Some(7));
    for damaged in [
        "",
        "ada",
        "null",
        "[]",
        r#"{"schema":1"#,
        r#"{"schema":"ada"}"#,
        r#"{"ended_at":"ada"}"#,
        r#"{"ended_at":7,"ended_at":7}"#,
        r#"{"customer":{"value":"ada"}}"#,
        "{} ada",
    ] {
        let unreadable = read::<Record>(damaged).expect_err(damaged);
        assert!(
            matches!(unreadable, Unreadable::Damaged { .. }),
            "{damaged}: {unreadable}"
        );
        assert!(
            !unreadable.to_string().contains("ada"),
            "{damaged}: {unreadable}"
        );
    }
    let damaged = Unreadable::Damaged {
        line: 2,
        column: 12,
    };
    assert_eq!(read::<Record>("{\n \"ended_at\":{}}"), Err(damaged));
}
