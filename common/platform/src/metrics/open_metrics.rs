//! OpenMetrics 1.0, made from the text that Prometheus scrapes. The two differ in four ways: a
//! counter's family has a name without `_total`, quotes in help texts are escaped, there are no
//! empty lines, and the text ends with a line that says so.

/// Turns Prometheus' text format into OpenMetrics.
pub fn of(text: &str) -> String {
    let counters: Vec<&str> = text.lines().filter_map(counter).collect();
    let mut open = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.is_empty()) {
        open += &described(line, &counters).unwrap_or_else(|| line.to_owned());
        open.push('\n');
    }
    open + "# EOF\n"
}

/// The name of the counter whose type this line gives.
fn counter(line: &str) -> Option<&str> {
    line.strip_prefix("# TYPE ")?.strip_suffix(" counter")
}

/// A line about a family, with the family's name in OpenMetrics. None for a sample.
fn described(line: &str, counters: &[&str]) -> Option<String> {
    let (word, rest) = line.strip_prefix("# ")?.split_once(' ')?;
    let (name, text) = rest.split_once(' ')?;
    let family = match name.strip_suffix("_total") {
        Some(family) if counters.contains(&name) => family,
        _ => name,
    };
    let text = match word {
        "HELP" => text.replace('"', "\\\""),
        _ => text.to_owned(),
    };
    Some(format!("# {word} {family} {text}"))
}
