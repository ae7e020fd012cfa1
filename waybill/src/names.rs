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
#[path = "../tests/unit/names.rs"]
mod tests;
