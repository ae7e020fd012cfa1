//! The list of events.

use std::fmt::Write as _;

use domain::envelope::Envelope;
use domain::event::Pattern;
use serde_json::Value;
use store::events::{self, Filter};
use store::sql::Db;
use store::traces;

use crate::shown::{self, Cell};
use crate::{Column, Error, Extent, List, Page, Wanted, column, lesser, sentence, words};

#[derive(Clone, Copy, Debug, Default)]
pub struct Events;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct EventFilter {
    /// Only these: words between dots, `*` is any one, `#` any number: `order.*`
    #[arg(long, value_name = "PATTERN", value_parser = words::event(), hide_possible_values = true)]
    pub r#type: Option<Pattern>,
    /// Only those of a shop's orders; payments are of no shop
    #[arg(long, value_parser = words::shop)]
    pub shop: Option<String>,
    /// Only events about the order, payment or other object with this id
    #[arg(long, value_name = "ID")]
    pub object: Option<String>,
    /// Only events that followed from one delivery, the oldest first. Give its request id, trace
    /// id, delivery id or job id
    #[arg(long, value_name = "ID", conflicts_with_all = ["type", "shop", "object"])]
    pub trace: Option<String>,
}

/// How many events are read at a time.
const CHUNK: i64 = 500;
/// How many positions are looked at at a time, and how often for one page. Few of the events may fit.
const WINDOW: i64 = 10_000;
const WINDOWS: usize = 20;
/// How many characters of an event's data are shown.
const SHORT: usize = 100;

impl List for Events {
    type Filter = EventFilter;
    type Row = Envelope;

    const PAGE: &'static str = "/events";
    const COMMAND: &'static str = "events list";
    const TITLE: &'static str = "Events";
    const ABOUT: &'static str = "The events that are sent to your own systems, the newest first.";
    const EMPTY: &'static str = "No events.";
    const EXTENT: Extent = Extent::Pages;
    const COLUMNS: &'static [Column<Envelope>] = &[
        column("Time", |it| Cell::time(it.created_at)),
        column("Type", |it| Cell::code(it.kind.as_str())),
        column("Shop", |it| Cell::maybe(shop(it))),
        column("Object", object),
        lesser("Event", |it| Cell::code(it.id.to_string())),
        sentence("Data", |it| Cell::text(short(it))),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &EventFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<Envelope>, Error> {
        if let Some(id) = &filter.trace {
            let traces: Vec<_> = traces::of(db, id.trim()).await?.into_iter().collect();
            let found = events::of_traces(db, &traces, wanted.rows()).await?;
            return Ok(Page::first(found, wanted));
        }
        let kinds = filter.r#type.clone().unwrap_or_else(Pattern::all);
        let asked = Filter {
            kind_prefix: kinds.prefix().to_owned(),
            shop: filter.shop.clone().unwrap_or_default(),
            object_id: filter.object.clone().unwrap_or_default(),
        };
        let newest = events::last(db, i64::MAX).await?;
        let newest = newest.map_or(0, |it| it.position);
        let mut end = wanted.cursor(|text| text.parse().ok())?;
        let end = end.get_or_insert(i64::MAX);
        *end = newest.saturating_add(1).min(*end);
        let first = events::first_position(db).await?.unwrap_or(*end);
        // The events of an object are few, and an index finds them.
        let window = if filter.object.is_some() {
            i64::MAX
        } else {
            WINDOW
        };
        let mut found: Vec<Envelope> = Vec::new();
        for _ in 0..WINDOWS {
            let start = end.saturating_sub(window).max(first);
            let older = events::newest(db, &asked, start..*end, CHUNK).await?;
            // What is left of the window is looked at next.
            *end = match older.last() {
                Some(last) if older.len() >= usize::try_from(CHUNK).unwrap_or_default() => {
                    last.position
                }
                _ => start,
            };
            found.extend(older.into_iter().filter(|it| kinds.fits(&it.kind)));
            if *end <= first || found.len() >= wanted.limit {
                break;
            }
        }
        if found.len() > wanted.limit {
            found.truncate(wanted.limit);
            *end = found.last().map_or(*end, |it| it.position);
        }
        let mut page = Page::whole(found);
        if *end > first {
            page.next = Some(end.to_string());
            if page.items.len() < wanted.limit {
                let note = "Few of the newest events fit; the next page has older ones.";
                page.note = Some(note.to_owned());
            }
        }
        if page.items.is_empty() && !words::is_known(&kinds) {
            page.note =
                Some("No type of this version fits `type`; docs/events.md lists them.".to_owned());
        }
        Ok(page)
    }
}

/// The shop of an event. It is empty when the delivery named none.
pub fn shop(event: &Envelope) -> Option<&str> {
    event.shop.as_deref().filter(|it| !it.is_empty())
}

/// What the event is about, which has a page if it is an order, a payment or a subscription.
fn object(event: &Envelope) -> Cell {
    let id = event.object_id.as_str();
    let of = event.kind.split('.').next().unwrap_or_default();
    match (of, shop(event)) {
        ("order", Some(shop)) => Cell::link(id, shown::order(shop, id)),
        ("payment", _) => Cell::link(id, shown::payment(id)),
        ("subscription", _) => Cell::link(id, shown::subscription(id)),
        _ => Cell::code(id),
    }
}

/// An event's data on one line, without the fields that other columns show. Of a list only the length is shown.
pub fn short(event: &Envelope) -> String {
    let data: Value = serde_json::from_str(event.data.get()).unwrap_or_default();
    let mut text = String::new();
    for (name, value) in data.as_object().into_iter().flatten() {
        let value = match value {
            Value::Null => continue,
            Value::String(value) if name == "shop" && Some(value) == event.shop.as_ref() => {
                continue;
            }
            Value::String(value) if *value == event.object_id => continue,
            Value::String(value) => value.clone(),
            Value::Array(items) => format!("[{}]", items.len()),
            other => other.to_string(),
        };
        let _ = write!(text, "{name}={value} ");
    }
    let text = text.trim_end();
    match text.char_indices().nth(SHORT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}..", &text[..end]),
    }
}
