//! The templates of the pages.

use std::collections::BTreeSet;

/// No template may mark a value as HTML that needs no escaping, or use a text of others as the
/// target of a link.
#[test]
fn templates_let_nothing_in_as_it_is_and_lead_to_checked_addresses_alone() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
    let mut links = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for unescaped in ["safe", "escape", "{% filter"] {
            assert!(!text.contains(unescaped), "{unescaped} in {text}");
        }
        for attribute in [" href=\"", " src=\"", " action=\"", " style=\""] {
            let values = text.split(attribute).skip(1);
            let values = values.map(|rest| rest.split('"').next().unwrap_or_default());
            links.extend(values.filter(|it| it.contains("{{")).map(str::to_owned));
        }
    }
    let checked = [
        // The query is encoded as a form.
        "/identity/login/oauth/authorize/as?{{ denied }}",
        "/identity/login/oauth/authorize/as?{{ query }}",
        "/payment/checkout/{{ id }}/decline",
        "/payment/checkout/{{ id }}/pay",
        "{{ url }}",
    ];
    assert_eq!(links, BTreeSet::from(checked.map(str::to_owned)));
}
