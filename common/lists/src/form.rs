//! Forms that are made of the arguments of a command. A form has a field for each argument, with its help, its values
//! and what holds without it; what is filled in is read as the command reads it, and refused for the same reasons.

use std::error::Error as _;

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Args, Command, ValueHint};

use crate::{Error, shown};

/// An argument, as a form asks for it.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name of the option without `--`, or of the argument; and of the field in an address.
    pub name: String,
    pub label: String,
    pub help: String,
    pub value: String,
    /// What holds when nothing is given. Empty: nothing does.
    pub usual: String,
    pub values: Values,
    /// It must be given.
    pub is_required: bool,
    /// It is no option, and stands in its place.
    is_positional: bool,
}

/// What may be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    Text,
    /// A text; these are usual.
    Usual(Vec<String>),
    /// One of these.
    OneOf(Vec<String>),
    /// `yes`, or nothing.
    Flag,
    /// A secret: a command reads it from a file, and a form asks for it without showing it.
    Secret,
}

/// How the help of an argument ends that may be given more than once.
const REPEATED: &str = ". It may be repeated";
/// The value of a field that is given or not.
const YES: &str = "yes";
/// How the name of an option ends that takes a file with a secret.
const FILE: &str = "-file";

/// The fields of a form for these arguments, with what is given of them.
pub fn fields<'a, T: Args>(given: impl Fn(&str) -> Option<&'a str>) -> Vec<Field> {
    let command = command_of::<T>();
    let args = command.get_arguments();
    args.map(|arg| Field::of(arg, given(field(arg)).unwrap_or_default().trim()))
        .collect()
}

/// What a command does, and all else that its help says, by paragraphs.
pub fn about<T: Args>() -> (String, Vec<String>) {
    let command = command_of::<T>();
    let does = command.get_about().map(ToString::to_string);
    let does = does.unwrap_or_default();
    let whole = command.get_long_about().map(ToString::to_string);
    let whole = whole.unwrap_or_default();
    let rest = whole.split("\n\n").skip(1).map(ToOwned::to_owned);
    (does, rest.collect())
}

/// What an empty field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// The argument is not given.
    LeftOut,
    /// An argument that takes any text is given, and empty.
    Text,
}

/// Reads the arguments. `given` has what a field says; nothing for one that is not there.
pub fn read<'a, T: Args>(
    given: impl Fn(&str) -> Option<&'a str>,
    empty: Empty,
) -> Result<T, Error> {
    let mut command = command_of::<T>();
    let (mut words, mut places) = (Vec::new(), Vec::new());
    for arg in command.get_arguments() {
        let name = name(arg);
        let Some(value) = given(field(arg)).map(str::trim) else {
            continue;
        };
        let is_text = arg.get_value_parser().type_id() == ValueParser::string().type_id();
        match arg.get_action() {
            ArgAction::SetTrue => match value {
                "" | "no" => {}
                YES => words.push(format!("--{name}")),
                _ => {
                    return Err(Error::Wrong(format!(
                        "{name}: it must be {YES}, or left out"
                    )));
                }
            },
            ArgAction::Append => {
                let values = value.split_whitespace();
                words.extend(values.map(|value| format!("--{name}={value}")));
            }
            _ if value.is_empty() && !(is_text && empty == Empty::Text) => {}
            _ if arg.is_positional() => places.push(value.to_owned()),
            _ => words.push(format!("--{name}={value}")),
        }
    }
    if !places.is_empty() {
        words.push("--".to_owned());
        words.extend(places);
    }
    let matches = command.try_get_matches_from_mut(words);
    let read = matches.and_then(|it| T::from_arg_matches(&it));
    read.map_err(|error| Error::Wrong(why(&error)))
}

/// The command that does the same as these fields.
pub fn command(name: &str, fields: &[Field]) -> String {
    let mut line = format!("waybill {name}");
    for field in fields.iter().filter(|it| !it.value.is_empty()) {
        line.push(' ');
        if !field.is_positional {
            line.push_str("--");
            line.push_str(&field.name);
        }
        if field.values == Values::Flag {
            continue;
        }
        if !field.is_positional {
            line.push(if field.value.starts_with('-') {
                '='
            } else {
                ' '
            });
        }
        line.push_str(&shown::quoted(&field.value));
    }
    line
}

fn command_of<T: Args>() -> Command {
    let command = Command::new("form")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true);
    let mut command = T::augment_args(command);
    command.build();
    command
}

fn name(arg: &Arg) -> &str {
    arg.get_long().unwrap_or(arg.get_id().as_str())
}

fn is_secret(arg: &Arg) -> bool {
    arg.get_value_hint() == ValueHint::FilePath
}

/// The name of the field for an argument.
fn field(arg: &Arg) -> &str {
    let name = name(arg);
    match name.strip_suffix(FILE) {
        Some(secret) if is_secret(arg) => secret,
        _ => name,
    }
}

impl Field {
    fn of(arg: &Arg, value: &str) -> Self {
        let possible = arg.get_possible_values();
        let possible: Vec<String> = possible.iter().map(|it| it.get_name().to_owned()).collect();
        let values = match arg.get_action() {
            ArgAction::SetTrue => Values::Flag,
            _ if is_secret(arg) => Values::Secret,
            _ if possible.is_empty() => Values::Text,
            _ if arg.is_hide_possible_values_set() => Values::Usual(possible),
            _ => Values::OneOf(possible),
        };
        let mut usual = arg.get_default_values().iter();
        let usual = usual.next().filter(|_| values != Values::Flag);
        let name = field(arg);
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        Field {
            name: name.to_owned(),
            label: label(arg.get_id().as_str()),
            // What is repeated on a command line stands in one field of a form.
            help: match help.strip_suffix(REPEATED) {
                Some(help) if is_list => format!("{help}. Several have spaces between them"),
                _ => help,
            },
            value: value.to_owned(),
            usual: usual.map_or_else(String::new, |it| it.to_string_lossy().into_owned()),
            values,
            is_required: arg.is_required_set(),
            is_positional: arg.is_positional(),
        }
    }
}

/// `created-after` as people read it.
fn label(name: &str) -> String {
    let words = name.replace(['-', '_'], " ");
    let mut chars = words.chars();
    let first = chars.next().map(|it| it.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// The name of a field, of an argument such as `--tier <TIER>` or `<URL>`.
fn bare(argument: &str) -> String {
    let name = argument.split(' ').next().unwrap_or_default();
    match name.strip_prefix("--") {
        Some(name) => name.strip_suffix(FILE).unwrap_or(name).to_owned(),
        None => name.trim_matches(['<', '>', '[', ']']).to_lowercase(),
    }
}

/// Why the arguments are wrong. What was given is not repeated: it may be about a person.
fn why(error: &clap::Error) -> String {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => bare(name),
        Some(ContextValue::Strings(names)) => {
            let names: Vec<String> = names.iter().map(|it| bare(it)).collect();
            names.join(", ")
        }
        _ => String::new(),
    };
    let argument = named(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::InvalidValue => {
            let values = named(ContextKind::ValidValue);
            format!("{argument} must be one of {values}")
        }
        ErrorKind::MissingRequiredArgument => format!("{argument} must be given"),
        ErrorKind::ArgumentConflict => {
            let other = named(ContextKind::PriorArg);
            format!("{argument} and {other} exclude each other")
        }
        _ => match error.source() {
            Some(why) => format!("{argument}: {why}"),
            None => format!("{argument} cannot be read"),
        },
    }
}
