//! Tests of what is private in `src/publish.rs`.

use domain::time::Timestamp;
use serde_json::value::RawValue;

use super::*;

fn of((position, object): (i64, &&str)) -> Envelope {
    Envelope {
        id: Uuid::now_v7(),
        kind: "order.updated".to_owned(),
        shop: None,
        object_id: (*object).to_owned(),
        created_at: Timestamp(0),
        position,
        data: RawValue::NULL.to_owned(),
        traceparent: None,
    }
}

fn placed(objects: &[&str]) -> Vec<Envelope> {
    (7..).zip(objects).map(of).collect()
}

fn rounds<'a>(batch: &Batch<'a>) -> Vec<Vec<&'a str>> {
    let objects = |round: &Vec<&'a Envelope>| -> Vec<&'a str> {
        round.iter().map(|event| event.object_id.as_str()).collect()
    };
    batch.rounds.iter().map(objects).collect()
}

#[test]
fn no_round_has_two_events_of_one_object() {
    let events = placed(&["a", "b", "a", "a", "c", "b"]);
    let batch = Batch::of(&events, &BTreeMap::new());
    let expected = [vec!["a", "b", "c"], vec!["a", "b"], vec!["a"]];
    assert_eq!(rounds(&batch), expected);
    assert_eq!(batch.events.len(), 6);
}

#[test]
fn what_the_broker_has_confirmed_is_not_sent_again() {
    let events = placed(&["a", "b", "a"]);
    let confirmed = |place: usize| (events[place].position, events[place].id);
    let batch = Batch::of(&events, &BTreeMap::from([confirmed(0), confirmed(2)]));
    assert_eq!(rounds(&batch), [vec!["b"]]);
    assert_eq!(batch.events.len(), 3, "the cursor can pass all of them");
}

#[test]
fn an_object_with_very_many_events_ends_the_batch() {
    let mut objects = vec!["a"; ROUNDS];
    objects.extend(["b", "a", "c"]);
    let events = placed(&objects);
    let batch = Batch::of(&events, &BTreeMap::new());
    assert_eq!(batch.rounds.len(), ROUNDS);
    assert_eq!(rounds(&batch)[0], ["a", "b"], "c would be sent twice");
    assert_eq!(batch.events.len(), ROUNDS + 1);
}

#[test]
fn another_event_at_the_position_of_a_confirmed_one_is_sent() {
    let events = placed(&["a", "b"]);
    let lost = BTreeMap::from([(events[0].position, Uuid::now_v7())]);
    assert_eq!(rounds(&Batch::of(&events, &lost)), [vec!["a", "b"]]);
}
