//! `waybill events` shows the events that Waybill sends to the merchant's own systems, and `waybill listen --forward-to`
//! sends them on.
//!
//! `tail` reads past events from the database and new events from a queue of its own, and shows
//! each event once. After a lost connection it reads from the database the events that it has
//! missed. Without a broker it polls the database. Of a service on another machine it asks the cursor API.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};
use bus::Tap;
use config::{Config, Settings};
use domain::envelope::Envelope;
use domain::event::Pattern;
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::{shutdown, terminal, zone};
use store::events;
use store::sql::{self, Db};
use store::{broker, event_head};
use tokio::time::sleep;
use uuid::Uuid;

use crate::commands::database;
use crate::commands::follow::{Flow, Outage};
use crate::commands::forward::Forward;
use crate::commands::remote::Remote;
use crate::table::{self, Listed};
use lists::age::{self, Moment};
use lists::events::{Events, shop, short};
use lists::words;

/// The pause between two polls of the database.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// The pause between two tries to reach the broker or the database.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// For how many seconds an answer of a service waits for the first event.
const WAIT: u32 = 20;
/// How many ids a tail remembers at least, so that it shows no event twice.
const REMEMBERED: usize = 100_000;
/// How many rows are read at a time.
const CHUNK: i64 = 500;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show events as they are sent, one line for each, until Ctrl-C
    Tail(Tail),
    /// List the newest events
    List(Listed<Events>),
}

/// Which events are shown.
#[derive(clap::Args)]
pub struct Wanted {
    /// Only these: words between dots, `*` is any one, `#` any number: `order.*`
    #[arg(
        long = "type",
        value_name = "PATTERN",
        default_value = "#",
        value_parser = words::event(),
        hide_possible_values = true
    )]
    kind: Pattern,
    /// Only those of a shop's orders; payments are of no shop
    #[arg(long)]
    shop: Option<String>,
}

#[derive(clap::Args)]
pub struct Tail {
    #[command(flatten)]
    wanted: Wanted,
    /// First show past events, from then on: an age like 2h, a time like 2027-01-31T12:00:00Z, a day,
    /// which means its beginning, or the id of an event, which means those after it
    #[arg(long, value_name = "AGE|TIME|ID", value_parser = since)]
    since: Option<Since>,
    /// End after this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Print the JSON of each event as it is sent, one line for each
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug)]
enum Since {
    Moment(Moment),
    After(Uuid),
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(id) = text.parse() {
        return Ok(Since::After(id));
    }
    let moment = age::moment(text).map(Since::Moment);
    moment.map_err(|problem| format!("{problem}, or the id of an event"))
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    match command {
        Command::Tail(arguments) => tail(settings, arguments).await,
        Command::List(arguments) => list(settings, arguments).await,
    }
}

async fn list(settings: &Settings, listed: Listed<Events>) -> Result<()> {
    let db = database(settings).await?;
    let shown = listed.print(&db, &Events).await;
    db.close().await;
    shown
}

async fn tail(settings: &Settings, arguments: Tail) -> Result<()> {
    let stop = shutdown::on_signal()?;
    let broker = Config::broker(settings)?;
    let db = database(settings).await?;
    let mut follower = Follower::new(Shown::new(&arguments), arguments.since);
    let ended = tokio::select! {
        ended = follower.follow(&db, broker.as_ref()) => ended,
        () = stop.cancelled() => Ok(()),
    };
    db.close().await;
    ended
}

/// Which events `waybill listen` forwards, and how it shows them.
pub struct Forwarded {
    pub kind: Pattern,
    pub shop: Option<String>,
    /// Those after this event, or what happens next.
    pub after: Option<Uuid>,
    pub limit: Option<u64>,
    pub json: bool,
    /// The other options that were given, as a shell reads them.
    pub options: String,
}

/// Forwards what happens, of the database of the settings or of a service on another machine.
pub async fn forward(
    settings: &Settings,
    remote: Option<Remote>,
    to: Forward,
    wanted: Forwarded,
) -> Result<()> {
    let stop = shutdown::on_signal()?;
    let after = wanted.after;
    let tail = Tail {
        wanted: Wanted {
            kind: wanted.kind,
            shop: wanted.shop,
        },
        since: after.map(Since::After),
        limit: wanted.limit,
        json: wanted.json,
    };
    let mut shown = Shown::new(&tail);
    shown.forward = Some(to);
    let mut follower = Follower::new(shown, tail.since);
    let db = match remote {
        None => Some(database(settings).await?),
        Some(_) => None,
    };
    let following = async {
        match (&db, &remote) {
            (Some(db), _) => follower.follow(db, None).await,
            (None, Some(remote)) => follower.shown.follow(remote, after).await,
            (None, None) => Ok(()),
        }
    };
    let ended = stop.run_until_cancelled(following).await;
    if let Some(db) = db {
        db.close().await;
    }
    if let (Some(to), Some(last)) = (&follower.shown.forward, follower.shown.last) {
        to.go_on(last, &wanted.options);
    }
    ended.unwrap_or(Ok(()))
}

/// What a tail has shown so far, and what it still has to show.
struct Follower {
    shown: Shown,
    since: Option<Since>,
    /// Events of before are not shown.
    from: Timestamp,
    /// Up to where the database was read.
    position: Option<i64>,
    /// How far the broker had the events before anything of it was heard.
    published: i64,
    /// The newest time in the ids that were seen.
    newest: Timestamp,
    seen: BTreeSet<Uuid>,
    outage: Outage,
}

/// Shows events, and forwards them first if that is wanted.
struct Shown {
    kind: Pattern,
    /// Only those of this shop. Empty: of any.
    shop: String,
    json: bool,
    /// How many events are still to be shown. `None`: no limit.
    left: Option<u64>,
    /// The widths of the columns so far.
    widths: [usize; 4],
    forward: Option<Forward>,
    /// The last one.
    last: Option<Uuid>,
    /// It was said that events are waited for.
    has_begun: bool,
}

impl Follower {
    fn new(shown: Shown, since: Option<Since>) -> Self {
        let from = match since {
            Some(Since::Moment(moment)) => moment.at(Clock::system().now()),
            Some(Since::After(id)) => events::time_of(id),
            None => Timestamp(0),
        };
        Follower {
            shown,
            since,
            from,
            position: None,
            published: 0,
            newest: from,
            seen: BTreeSet::new(),
            outage: Outage::default(),
        }
    }

    async fn follow(&mut self, db: &Db, broker: Option<&config::Broker>) -> Result<()> {
        loop {
            match self.follow_until_outage(db, broker).await {
                Ok(()) => return Ok(()),
                Err(error) if is_outage(&error) => self.outage.begun(&format!("{error:#}")),
                Err(error) => return Err(error),
            }
            sleep(TRY_AGAIN).await;
        }
    }

    async fn follow_until_outage(
        &mut self,
        db: &Db,
        broker: Option<&config::Broker>,
    ) -> Result<()> {
        if self.position.is_none() {
            self.published = broker::position(db).await?;
        }
        match broker {
            Some(broker) => self.follow_broker(db, broker).await,
            None => self.follow_database(db).await,
        }
    }

    async fn follow_database(&mut self, db: &Db) -> Result<()> {
        loop {
            if self.catch_up(db).await? == Flow::End {
                return Ok(());
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// First binds the queue and then reads the database, so that no event between the two is
    /// missed.
    async fn follow_broker(&mut self, db: &Db, broker: &config::Broker) -> Result<()> {
        let mut tap = Tap::open(&broker.url, &broker.prefix, self.shown.kind.as_str())
            .await
            .map_err(Lost)?;
        if let Some(position) = self.position {
            // What came from the broker was not in the sequence of all events.
            let all_came = events::position_at(db, self.newest).await?;
            self.position = Some(position.max(all_came));
        }
        if self.catch_up(db).await? == Flow::End {
            return Ok(());
        }
        loop {
            let event = tap.next().await.map_err(Lost)?;
            if self.see(event.id) && self.shown.show(&event).await? == Flow::End {
                return Ok(());
            }
        }
    }

    /// Where to begin in the database.
    async fn first_position(&mut self, db: &Db) -> Result<i64> {
        Ok(match self.since {
            None => event_head::newest(db).await?,
            Some(Since::Moment(_)) => events::position_at(db, self.from).await?,
            Some(Since::After(id)) => match events::known_position(db, id).await? {
                Some(position) => {
                    self.from = Timestamp(0);
                    self.pass_over(db, position).await?;
                    position
                }
                None => events::position_at(db, self.from).await?,
            },
        })
    }

    /// Counts events up to a position as shown that the broker did not have yet, and sends.
    async fn pass_over(&mut self, db: &Db, until: i64) -> Result<()> {
        let mut position = self.published;
        loop {
            let next = events::placed_after(db, position, until, CHUNK).await?;
            let Some(last) = next.last() else {
                return Ok(());
            };
            position = last.position;
            self.seen.extend(next.iter().map(|event| event.id));
        }
    }

    /// Shows the events in the database that were not shown yet.
    async fn catch_up(&mut self, db: &Db) -> Result<Flow> {
        let mut position = match self.position {
            Some(position) => position,
            None => self.first_position(db).await?,
        };
        self.shown.begun();
        let head = event_head::newest_after(db, position).await?;
        loop {
            self.position = Some(position);
            let next = events::placed_after(db, position, head, CHUNK).await?;
            let Some(last) = next.last() else { break };
            position = last.position;
            let fitting = next
                .into_iter()
                .filter(|event| self.shown.fits(&event.kind, event.shop.as_deref()));
            let ids: Vec<Uuid> = fitting.map(|event| event.id).collect();
            for event in events::by_ids(db, ids).await? {
                if self.see(event.id) && self.shown.show(&event).await? == Flow::End {
                    return Ok(Flow::End);
                }
            }
        }
        self.outage.over();
        Ok(Flow::On)
    }

    /// Remembers an id. Returns false if the event was shown before, or is older than the events
    /// to be shown.
    fn see(&mut self, id: Uuid) -> bool {
        self.newest = self.newest.max(events::time_of(id));
        let unseen = events::time_of(id) >= self.from && self.seen.insert(id);
        let late = events::first_id(self.newest.minus(events::LATE));
        while self.seen.len() > REMEMBERED && self.seen.first().is_some_and(|id| *id < late) {
            self.seen.pop_first();
        }
        unseen
    }
}

impl Shown {
    fn new(tail: &Tail) -> Self {
        let Wanted { kind, shop } = &tail.wanted;
        Shown {
            shop: shop.clone().unwrap_or_default(),
            kind: kind.clone(),
            json: tail.json,
            left: tail.limit,
            widths: [24, 29, 20, 14],
            forward: None,
            last: None,
            has_begun: false,
        }
    }

    /// Says that events are waited for, once it is known after which one: whoever reads this may make one happen.
    fn begun(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        match &self.forward {
            Some(to) => to.begun(),
            None if terminal::err_is_one() => {
                terminal::err("Waiting for events; Ctrl-C ends it.\n");
            }
            None => {}
        }
    }

    /// Follows the events of a service, each page of which waits for the first event.
    async fn follow(&mut self, remote: &Remote, after: Option<Uuid>) -> Result<()> {
        #[derive(serde::Deserialize)]
        struct Page {
            events: Vec<Envelope>,
            next: Option<Uuid>,
        }
        let mut outage = Outage::default();
        // Without an event to begin after, it is first asked which one is the newest. When there is none, all are new. The
        // first answer comes at once, so that it is known whether there is one.
        let first = after.map_or("latest".to_owned(), |id| id.to_string());
        let mut place = vec![("after", first)];
        loop {
            let filters = [("type", self.kind.as_str()), ("shop", &self.shop)];
            let filters = filters
                .into_iter()
                .filter(|(_, it)| !it.is_empty() && *it != "#");
            let path = remote.path("/api/events", filters, &place);
            let answer = match remote.get(&path).await? {
                Ok(response) => match response.json::<Page>().await {
                    Err(error) if error.is_decode() => {
                        bail!("the service answers with something else than events")
                    }
                    answer => answer.map_err(|_| "the connection is lost".to_owned()),
                },
                Err(why) => Err(why),
            };
            let page = match answer {
                Ok(page) => page,
                Err(why) => {
                    outage.begun(&why);
                    sleep(TRY_AGAIN).await;
                    continue;
                }
            };
            outage.over();
            self.begun();
            for event in &page.events {
                if self.show(event).await? == Flow::End {
                    return Ok(());
                }
            }
            place = vec![("wait", WAIT.to_string())];
            place.extend(page.next.map(|next| ("after", next.to_string())));
        }
    }

    fn fits(&self, kind: &str, shop: Option<&str>) -> bool {
        let wanted = self.shop.as_str();
        (wanted.is_empty() || shop == Some(wanted)) && self.kind.fits(kind)
    }

    async fn show(&mut self, event: &Envelope) -> Result<Flow> {
        if !self.fits(&event.kind, event.shop.as_deref()) {
            return Ok(Flow::On);
        }
        let took = match &self.forward {
            Some(to) => Some(to.send(event).await?),
            None => None,
        };
        self.last = Some(event.id);
        let line = match took {
            _ if self.json => terminal::json(event)?,
            Some(took) => format!("{}  accepted in {} ms", self.line(event), took.as_millis()),
            None => self.line(event),
        };
        if !table::was_read(terminal::out(&format!("{line}\n")))? {
            return Ok(Flow::End);
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                return Ok(Flow::End);
            }
        }
        Ok(Flow::On)
    }

    /// Prints an event on a line. Each column is as wide as its widest cell so far.
    fn line(&mut self, event: &Envelope) -> String {
        let cells = cells(event).map(|cell| terminal::cell(&cell).into_owned());
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&mut self.widths) {
            *width = (*width).max(cell.chars().count());
            let _ = write!(line, "{cell:width$}  ");
        }
        line.push_str(&cells[4]);
        line.trim_end().to_owned()
    }
}

/// The error that the connection to the broker is lost.
#[derive(Debug)]
struct Lost(anyhow::Error);

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the broker cannot be reached: {:#}", self.0)
    }
}

impl std::error::Error for Lost {}

fn is_outage(error: &anyhow::Error) -> bool {
    error.is::<Lost>() || error.downcast_ref().is_some_and(sql::is_outage)
}

fn cells(event: &Envelope) -> [String; 5] {
    [
        zone::time(event.created_at),
        printable(&event.kind),
        printable(shop(event).unwrap_or("-")),
        printable(&event.object_id),
        printable(&short(event)),
    ]
}

/// Replaces control characters, because text that a sender chose must not control the terminal.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
