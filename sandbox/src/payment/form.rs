//! The forms that come in: `line_items[0][price_data][currency]=usd` and the like. A parameter
//! that no code has read before [`Form::refuse_rest`] is called counts as unknown.

use std::collections::BTreeMap;

use super::error::Error;

/// The names and values of a form, sorted.
pub type Parameters = Vec<(String, String)>;

/// How many brackets may follow a name.
const DEEPEST: usize = 6;
const MOST_METADATA: usize = 50;
const LONGEST_KEY: usize = 40;
const LONGEST_VALUE: usize = 500;

/// A form, or the group of fields under one of its names.
#[derive(Default)]
pub struct Form {
    /// The name of this group, for errors.
    path: String,
    fields: BTreeMap<String, Node>,
}

enum Node {
    Text(String),
    Group(BTreeMap<String, Node>),
}

impl Form {
    pub fn read(parameters: &Parameters) -> Result<Self, Error> {
        let mut fields = BTreeMap::new();
        for (name, value) in parameters {
            let put = segments(name).and_then(|segments| put(&mut fields, &segments, value));
            put.ok_or_else(|| unknown(name))?;
        }
        let path = String::new();
        Ok(Form { path, fields })
    }

    /// The full name of a field, as it was sent.
    pub fn name(&self, field: &str) -> String {
        if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}[{field}]", self.path)
        }
    }

    pub fn text(&mut self, field: &str) -> Result<Option<String>, Error> {
        let name = self.name(field);
        match self.fields.remove(field) {
            None => Ok(None),
            Some(Node::Text(text)) if text.is_empty() => {
                let message = format!("You passed an empty string for '{name}'.");
                let error = Error::invalid(message).code("parameter_invalid_empty");
                Err(error.param(&name))
            }
            Some(Node::Text(text)) => Ok(Some(text)),
            Some(Node::Group(_)) => Err(Error::invalid("Invalid string").param(&name)),
        }
    }

    pub fn required(&mut self, field: &str) -> Result<String, Error> {
        let name = self.name(field);
        self.text(field)?.ok_or_else(|| missing(&name))
    }

    /// Reads a field that must be one of these words.
    pub fn choice<T: Copy>(
        &mut self,
        field: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Error> {
        let name = self.name(field);
        let Some(text) = self.text(field)? else {
            return Ok(None);
        };
        let choice = words.iter().find(|(word, _)| *word == text);
        let choice = choice.map(|(_, choice)| *choice);
        choice.map(Some).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("Invalid {name}: must be one of {}", words.join(", "));
            Error::invalid(message).param(&name)
        })
    }

    pub fn flag(&mut self, field: &str) -> Result<bool, Error> {
        let flag = self.choice(field, &[("true", true), ("false", false)])?;
        Ok(flag.unwrap_or(false))
    }

    /// Reads a field that must be a whole number above zero.
    pub fn positive(&mut self, field: &str) -> Result<Option<i64>, Error> {
        let name = self.name(field);
        let Some(text) = self.text(field)? else {
            return Ok(None);
        };
        match text.parse() {
            Ok(amount) if amount > 0 => Ok(Some(amount)),
            _ => {
                let error = Error::invalid(format!("Invalid positive integer: {text}"));
                Err(error.code("parameter_invalid_integer").param(&name))
            }
        }
    }

    pub fn required_positive(&mut self, field: &str) -> Result<i64, Error> {
        let name = self.name(field);
        self.positive(field)?.ok_or_else(|| missing(&name))
    }

    pub fn group(&mut self, field: &str) -> Result<Option<Form>, Error> {
        let path = self.name(field);
        match self.fields.remove(field) {
            None => Ok(None),
            Some(Node::Group(fields)) => Ok(Some(Form { path, fields })),
            Some(Node::Text(_)) => Err(Error::invalid("Invalid object").param(&path)),
        }
    }

    /// Reads numbered groups: `name[0][..]`, `name[1][..]`.
    pub fn list(&mut self, field: &str) -> Result<Vec<Form>, Error> {
        let name = self.name(field);
        let Some(mut group) = self.group(field)? else {
            return Ok(Vec::new());
        };
        let mut indexes = Vec::new();
        for index in group.fields.keys() {
            let number = index.parse::<u32>();
            let invalid = |_| Error::invalid("Invalid array").param(&name);
            indexes.push((number.map_err(invalid)?, index.clone()));
        }
        indexes.sort();
        let items = indexes.iter().map(|(_, index)| group.group(index));
        items
            .map(|item| item.map(Option::unwrap_or_default))
            .collect()
    }

    pub fn metadata(&mut self) -> Result<BTreeMap<String, String>, Error> {
        let Some(group) = self.group("metadata")? else {
            return Ok(BTreeMap::new());
        };
        let mut metadata = BTreeMap::new();
        for (key, value) in group.fields {
            let name = format!("{}[{key}]", group.path);
            let too_much = |what: &str| Err(Error::invalid(what).param(&name));
            match value {
                Node::Group(_) => return too_much("Invalid string"),
                Node::Text(_) if key.chars().count() > LONGEST_KEY => {
                    return too_much("Metadata keys can have up to 40 characters.");
                }
                Node::Text(value) if value.chars().count() > LONGEST_VALUE => {
                    return too_much("Metadata values can have up to 500 characters.");
                }
                // An empty value removes its key.
                Node::Text(value) if value.is_empty() => {}
                Node::Text(value) => {
                    metadata.insert(key, value);
                }
            }
            if metadata.len() > MOST_METADATA {
                return too_much("You can have up to 50 metadata keys.");
            }
        }
        Ok(metadata)
    }

    /// Accepts parameters that the real provider knows and this stand-in ignores.
    pub fn pass_over(&mut self, fields: &[&str]) {
        for field in fields {
            self.fields.remove(*field);
        }
    }

    pub fn refuse_rest(&self) -> Result<(), Error> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(field) => Err(unknown(&self.name(field))),
        }
    }
}

pub fn missing(name: &str) -> Error {
    let error = Error::invalid(format!("Missing required param: {name}."));
    error.code("parameter_missing").param(name)
}

fn unknown(name: &str) -> Error {
    let error = Error::invalid(format!("Received unknown parameter: {name}"));
    error.code("parameter_unknown").param(name)
}

/// Splits the name `a[b][c]` into a, b and c.
fn segments(name: &str) -> Option<Vec<&str>> {
    let (head, rest) = match name.find('[') {
        Some(bracket) => name.split_at(bracket),
        None => (name, ""),
    };
    let mut segments = vec![head];
    let mut rest = rest;
    while !rest.is_empty() {
        let (segment, after) = rest.strip_prefix('[')?.split_once(']')?;
        segments.push(segment);
        rest = after;
    }
    (segments.len() <= DEEPEST).then_some(segments)
}

fn put(fields: &mut BTreeMap<String, Node>, segments: &[&str], value: &str) -> Option<()> {
    let (name, inner) = segments.split_first()?;
    if inner.is_empty() {
        fields.insert((*name).to_owned(), Node::Text(value.to_owned()));
        return Some(());
    }
    let node = fields.entry((*name).to_owned());
    match node.or_insert_with(|| Node::Group(BTreeMap::new())) {
        Node::Group(fields) => put(fields, inner, value),
        Node::Text(_) => None,
    }
}
