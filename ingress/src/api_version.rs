//! The version of its API that a provider names with a delivery. It is stored with the job and
//! counted, so that an operator sees when a new version appears and an old one is no longer used.
//! No code decides by it, because handlers look only for the fields that they need. The
//! storefront's header is not signed, so it can contain anything; a delivery is never refused
//! because of it.

use std::collections::BTreeSet;
use std::sync::Mutex;

use domain::job::Source;
use platform::lock::lock;

/// How many versions of a provider a process counts separately; the first ones that it sees.
const COUNTED: usize = 16;

/// Counts an accepted delivery under its version.
pub fn count(source: Source, version: Option<&str>) {
    let version = label(source, version);
    metrics::counter!(
        "waybill_delivery_api_versions_total", "source" => source.into_str(), "version" => version
    )
    .increment(1);
}

/// The label of the metric. It is `none` if the provider sent no version, and `other` if the text
/// does not have the provider's form or there are already too many versions, because a sender must
/// not be able to make the metrics grow.
pub fn label(source: Source, version: Option<&str>) -> String {
    static SEEN: Mutex<BTreeSet<(&'static str, String)>> = Mutex::new(BTreeSet::new());

    let version = match version {
        None => return "none".to_owned(),
        Some(version) if !has_form(source, version) => return "other".to_owned(),
        Some(version) => version.to_owned(),
    };
    let mut seen = lock(&SEEN);
    let known = (source.into_str(), version);
    if !seen.contains(&known) {
        let of_source = seen.iter().filter(|(of, _)| *of == source.into_str());
        if of_source.count() >= COUNTED {
            return "other".to_owned();
        }
        seen.insert(known.clone());
    }
    known.1
}

/// Whether a text has the form of the provider's versions. The storefront's are quarters
/// (`2026-07`) and `unstable`. The payment provider's are days, since 2024 with a name
/// (`2026-10-28.endive`).
fn has_form(source: Source, version: &str) -> bool {
    match source {
        Source::Storefront => {
            let quarter = version.split_once('-').is_some_and(|(year, month)| {
                is_year(year) && ["01", "04", "07", "10"].contains(&month)
            });
            quarter || version == "unstable"
        }
        Source::Payment => {
            let (day, name) = version.split_once('.').unwrap_or((version, "acacia"));
            let parts: Vec<&str> = day.split('-').collect();
            let is_two = |text: &str| text.len() == 2 && is_number(text);
            let is_day = matches!(parts.as_slice(), [year, month, day]
                if is_year(year) && is_two(month) && is_two(day));
            is_day
                && (1..=20).contains(&name.len())
                && name.bytes().all(|it| it.is_ascii_lowercase())
        }
        Source::Internal => false,
    }
}

fn is_year(text: &str) -> bool {
    text.len() == 4 && text.starts_with("20") && is_number(text)
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}
