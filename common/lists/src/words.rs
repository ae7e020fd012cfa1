//! Words that an argument takes. The script of `waybill completions` offers them to a shell.

use std::convert::Infallible;
use std::error::Error;
use std::ffi::OsStr;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use domain::api_key::{self, Scope};
use domain::attention::Condition;
use domain::event::{NotAPattern, Pattern, catalogue};
use domain::job::{Kind, Queue, State};
use domain::license::Tier;
use domain::order::{FinancialStatus, FulfillmentStatus};
use domain::pause;
use domain::payment::outcome;
use domain::privacy;
use operators::fields::Reason;
use strum::VariantArray;
use uuid::Uuid;

/// What stands in a list for an order that has no such status.
const NONE: &str = "none";

/// A parser that takes one of these words and nothing else. The help lists them.
fn one_of<T>(words: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>())
}

pub fn queue() -> impl TypedValueParser<Value = Queue> {
    one_of(Queue::ALL.map(|it| it.into_str()))
}

pub fn state() -> impl TypedValueParser<Value = State> {
    one_of(State::ALL.map(|it| it.into_str()))
}

pub fn key_state() -> impl TypedValueParser<Value = api_key::State> {
    one_of(api_key::State::ALL.map(|it| it.into_str()))
}

pub fn scope() -> impl TypedValueParser<Value = Scope> {
    one_of(Scope::ALL.map(Scope::as_str))
}

pub fn reason() -> impl TypedValueParser<Value = Reason> {
    one_of(Reason::ALL.map(|it| it.into_str()))
}

pub fn pause_scope() -> impl TypedValueParser<Value = pause::Scope> {
    one_of(pause::Scope::ALL.map(|it| it.into_str()))
}

/// What can be paused, but for shops and connections.
pub fn pause_name() -> Usual {
    let queues = Queue::ALL.map(|it| it.into_str());
    let providers = pause::Provider::ALL.map(|it| it.into_str());
    usual(queues.into_iter().chain(providers).chain(looked_at()))
}

fn looked_at() -> impl Iterator<Item = &'static str> {
    let looked_at = Condition::ALL.into_iter();
    looked_at
        .filter(|it| it.row().is_looked_at)
        .map(|it| it.into_str())
}

pub fn condition() -> impl TypedValueParser<Value = Condition> {
    one_of(looked_at())
}

pub fn tier() -> impl TypedValueParser<Value = Tier> {
    one_of(Tier::ALL.map(|it| it.into_str()))
}

pub fn privacy_state() -> impl TypedValueParser<Value = privacy::State> {
    one_of(privacy::State::ALL.map(|it| it.into_str()))
}

pub fn privacy_topic() -> impl TypedValueParser<Value = privacy::Topic> {
    let words = privacy::Topic::VARIANTS
        .iter()
        .map(privacy::Topic::into_str);
    PossibleValuesParser::new(words).try_map(|word| word.parse::<privacy::Topic>())
}

/// A parser that takes any text that can be read. The words are those that are usual.
#[derive(Clone, Debug)]
pub struct Usual(Vec<String>);

impl TypedValueParser for Usual {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

/// A parser for which these words are usual.
pub fn usual<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Usual {
    Usual(words.into_iter().map(Into::into).collect())
}

/// The id of a job, an endpoint, a request, ..
pub fn id(text: &str) -> Result<Uuid, &'static str> {
    let id = Uuid::parse_str(text.trim());
    id.map_err(|_| "is no id such as 01a3185c-5000-7cc3-98c4-dc0c0c07398f; the list of the same command shows them")
}

/// The domain of a shop, in small letters.
pub fn shop(text: &str) -> Result<String, Infallible> {
    Ok(text.trim().to_ascii_lowercase())
}

/// The kinds of jobs.
pub fn kind() -> Usual {
    usual(kinds().map(Kind::into_str))
}

/// The topics and event types of deliveries.
pub fn topic() -> Usual {
    usual(
        kinds()
            .filter(|kind| kind.is_delivery())
            .map(Kind::into_str),
    )
}

fn kinds() -> impl Iterator<Item = Kind> {
    Queue::ALL.into_iter().flat_map(Kind::of_queue)
}

/// A pattern of events, which may be those of an older version.
pub fn event() -> impl TypedValueParser<Value = Pattern> {
    event_types().try_map(|text| text.parse::<Pattern>())
}

fn event_types() -> Usual {
    usual(catalogue().into_iter().map(|event| event.name))
}

/// Whether some type of event of this version fits a pattern.
pub fn is_known(pattern: &Pattern) -> bool {
    let mut types = catalogue().into_iter();
    types.any(|event| pattern.fits(&event.name))
}

/// A pattern of events that are to come.
pub fn coming_event() -> impl TypedValueParser<Value = Pattern> {
    event_types().try_map(|text| {
        let pattern = text
            .parse()
            .map_err(|error: NotAPattern| error.to_string())?;
        if !is_known(&pattern) {
            return Err("no type of event fits it; docs/events.md lists them".to_owned());
        }
        Ok(pattern)
    })
}

/// What a storefront says of the payment of an order, or what its payments come to.
pub fn financial_status() -> Usual {
    let known = FinancialStatus::KNOWN;
    usual(known.iter().map(FinancialStatus::as_str).chain([NONE]))
}

pub fn fulfillment_status() -> Usual {
    let known = FulfillmentStatus::KNOWN;
    usual(known.iter().map(FulfillmentStatus::as_str).chain([NONE]))
}

pub fn payment_state() -> Usual {
    usual(outcome::State::KNOWN.iter().map(outcome::State::as_str))
}
