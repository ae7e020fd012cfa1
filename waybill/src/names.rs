//! The other names of the binary: a link `waybill-ingress` is `waybill ingress`, and `waybill-orders` is
//! `waybill worker orders`, so that one file on disk is every process of an installation.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use domain::job::Queue;

/// The arguments of a process as they would be under the name `waybill`; the first is that name.
pub fn expanded(mut arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program).file_name().and_then(OsStr::to_str);
    let part = name.and_then(|name| name.strip_prefix("waybill-"));
    let mut expanded = vec![OsString::from("waybill")];
    match part {
        Some("ingress") => expanded.push("ingress".into()),
        Some(part) if part.parse::<Queue>().is_ok() => {
            expanded.extend(["worker".into(), part.into()]);
        }
        _ => {}
    }
    expanded.extend(arguments);
    expanded
}

#[cfg(test)]
mod tests {
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
}
