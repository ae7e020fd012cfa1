//! Which versions of a provider's API are counted apart.

use std::collections::BTreeSet;

use domain::job::Source;
use ingress::api_version::label;

#[test]
fn only_versions_of_a_providers_own_form_are_counted_apart() {
    for (source, version, counted) in [
        (Source::Storefront, "2026-07", "2026-07"),
        (Source::Storefront, "unstable", "unstable"),
        (Source::Storefront, "2026-08", "other"),
        (Source::Storefront, "canary", "other"),
        (Source::Storefront, "2026-10-28.endive", "other"),
        (Source::Payment, "2020-08-27", "2020-08-27"),
        (Source::Payment, "2026-10-28.endive", "2026-10-28.endive"),
        (Source::Payment, "2026-10-28.", "other"),
        (Source::Payment, "2026-10-28.Canary", "other"),
        (Source::Payment, "2026-10", "other"),
    ] {
        assert_eq!(label(source, Some(version)), counted, "{version}");
    }
    assert_eq!(label(Source::Payment, None), "none");
    let days = (10..60).map(|day| format!("2026-01-{day}"));
    let labels: BTreeSet<String> = days.map(|day| label(Source::Payment, Some(&day))).collect();
    assert!(labels.len() <= 16 && labels.contains("other"));
}
