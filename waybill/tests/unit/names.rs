//! Tests of what is private in `src/names.rs`.

use super::*;

fn of(line: &str) -> String {
    let expanded = expanded(line.split(' ').map(OsString::from));
    expanded.join(OsStr::new(" ")).into_string().unwrap()
}

#[test]
fn the_name_of_a_link_chooses_a_part() {
    assert_eq!(of("/usr/bin/waybill-ingress"), "waybill ingress");
    assert_eq!(
        of("./waybill-orders --concurrency 2"),
        "waybill worker orders --concurrency 2"
    );
    for queue in Queue::ALL {
        assert_eq!(
            of(&format!("waybill-{queue}")),
            format!("waybill worker {queue}")
        );
    }
}

#[test]
fn any_other_name_is_waybill_itself() {
    assert_eq!(of("waybill jobs list"), "waybill jobs list");
    assert_eq!(of("/opt/waybill-1.2.0 doctor"), "waybill doctor");
    assert_eq!(of("wb"), "waybill");
    assert_eq!(expanded(std::iter::empty()), ["waybill"]);
}
