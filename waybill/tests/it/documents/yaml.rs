//! Reads the YAML of our own files, as far as they use it.

/// A value of a YAML file and the keys that lead to it; an entry of a list has the key `-`.
#[derive(Debug)]
pub struct Entry {
    pub path: Vec<String>,
    pub value: String,
}

/// Reads the plain YAML in which our files are written: mappings and lists by indentation, and
/// whatever stands on one line as it is.
pub fn entries(text: &str) -> Vec<Entry> {
    let mut open: Vec<(usize, String)> = Vec::new();
    let mut entries = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        assert!(!content.starts_with('\t'), "{line:?}");
        let indent = line.len() - content.len();
        open.retain(|(of, _)| *of < indent);
        let mut path: Vec<String> = open.iter().map(|(_, key)| key.clone()).collect();
        let mut content = content;
        let mut at = indent;
        if let Some(item) = content.strip_prefix("- ") {
            path.push("-".to_owned());
            open.push((at, "-".to_owned()));
            content = item;
            at += 2;
        }
        let pair = content.split_once(": ");
        let pair = pair.or_else(|| content.strip_suffix(':').map(|key| (key, "")));
        let is_key = |key: &str| !key.contains([' ', '"', '[', '{', '=']);
        let value = match pair.filter(|(key, _)| is_key(key)) {
            Some((key, value)) => {
                path.push(key.to_owned());
                open.push((at, key.to_owned()));
                value
            }
            None => content,
        };
        let value = value.trim().to_owned();
        entries.push(Entry { path, value });
    }
    entries
}

/// The entries under a path, `*` standing for any key.
pub fn at<'a>(entries: &'a [Entry], path: &str) -> Vec<&'a Entry> {
    let wanted: Vec<&str> = path.split('/').collect();
    let fits = |entry: &&Entry| {
        let mut pairs = entry.path.iter().zip(&wanted);
        entry.path.len() == wanted.len()
            && pairs.all(|(key, wanted)| *wanted == "*" || key == wanted)
    };
    entries.iter().filter(fits).collect()
}

pub fn value<'a>(entries: &'a [Entry], path: &str) -> &'a str {
    let found = at(entries, path);
    assert_eq!(found.len(), 1, "{path}: {found:?}");
    &found[0].value
}

#[test]
fn yaml_is_read_as_it_is_meant() {
    let text = "# A comment.\na:\n  b: &anchor\n    c: one\n    d: [two, three]\n  e:\n    - f: 4\n      g: five\n    - --h=six\ni: seven\n";
    let found: Vec<(String, String)> = entries(text)
        .into_iter()
        .map(|entry| (entry.path.join("/"), entry.value))
        .collect();
    let expected = [
        ("a", ""),
        ("a/b", "&anchor"),
        ("a/b/c", "one"),
        ("a/b/d", "[two, three]"),
        ("a/e", ""),
        ("a/e/-/f", "4"),
        ("a/e/-/g", "five"),
        ("a/e/-", "--h=six"),
        ("i", "seven"),
    ];
    let expected = expected.map(|(path, value)| (path.to_owned(), value.to_owned()));
    assert_eq!(found, expected);
}
