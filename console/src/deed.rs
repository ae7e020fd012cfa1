//! What operators do from the console: each deed has a button, a page that asks where it is for good or wants to know
//! more, and an answer that leads to what came of it ([`lists::deeds`] says all of that).

use std::marker::PhantomData;
use std::time::Duration;

use axum::response::Response;
use domain::api_key::Role;
use domain::time::Timestamp;
use lists::deeds::{Configured, Deed, Desk, Done, Refused, Site, Undo};
use lists::form;

use crate::access::{Needs, Visit, Write};
use crate::act::{self, Act, Button, Hidden, Input, Look, Question, Secret, said};
use crate::error::Error;

/// How long the end of something is waited for. The page is answered before its deadline.
const PATIENCE: Duration = Duration::from_secs(6);

/// Whoever may do this.
pub struct Doer<D>(PhantomData<D>);

impl<D: Deed> Needs for Doer<D> {
    const ROLE: Role = D::ABOUT.role;
}

pub fn look<D: Deed>() -> Look {
    match D::ABOUT.undo {
        Undo::Never => Look::Danger,
        Undo::By(_) | Undo::Needless => Look::Usual,
    }
}

/// The command that does it to this one, or that does it at all.
pub fn command<D: Deed>(target: &str) -> String {
    match target {
        "" => format!("waybill {} {}", D::ABOUT.command, D::ABOUT.example),
        target => format!("waybill {} {target} {}", D::ABOUT.command, D::ABOUT.example),
    }
    .trim_end()
    .to_owned()
}

/// By which name an address has what is said: of the command, with its place where there are several.
pub fn name_of<D: Deed>(says: &str) -> String {
    if let Some(said) = said::ALL.iter().find(|it| it.1 == says) {
        return said.0.to_owned();
    }
    let name = D::ABOUT.command.replace(' ', "-");
    let place = D::SAYS.iter().position(|it| *it == says);
    debug_assert!(place.is_some(), "{name} may say: {says}");
    match place {
        None | Some(0) => name,
        Some(place) => format!("{name}-{place}"),
    }
}

/// What it does, and how it is taken back, by paragraphs.
pub fn about<D: Deed>() -> Vec<String> {
    let (does, more) = form::about::<D>();
    let mut about = vec![format!("{does}.")];
    about.extend(more);
    match D::ABOUT.undo {
        Undo::Never => about.push("It cannot be taken back.".to_owned()),
        Undo::By(command) => about.push(format!("To take it back: waybill {command}.")),
        Undo::Needless => {}
    }
    about
}

/// What brings a form of this page so that it is done once, however often it is sent.
pub fn fields<R>(visit: &Visit<R>, seen: Option<i64>) -> Hidden {
    let mut fields = vec![
        ("id".into(), visit.new_id().to_string()),
        ("now".into(), visit.now().0.to_string()),
    ];
    fields.extend(seen.map(|seen| ("seen".into(), seen.to_string())));
    fields
}

/// The button of a deed, beside what it does. `target` is the one that it is done to, or nothing.
pub fn act<D: Deed, R>(visit: &Visit<R>, target: &str, seen: Option<i64>) -> Act {
    let asks = D::ABOUT.question.is_some();
    let first = if asks && !target.is_empty() {
        " A page asks first."
    } else {
        ""
    };
    let to = D::ABOUT.path(target);
    let button = Button {
        label: D::ABOUT.button,
        to,
        asks,
        fields: if asks {
            Vec::new()
        } else {
            fields(visit, seen)
        },
        look: look::<D>(),
    };
    let (does, more) = form::about::<D>();
    let more = if asks { Vec::new() } else { more };
    let what = format!("{does}.{first} {}", more.join(" "));
    let command = command::<D>(target);
    Act::of(visit, D::ABOUT.role, what.trim_end(), button, command)
}

fn site<R>(visit: &Visit<R>) -> Site<'_> {
    Site {
        db: visit.db(),
        now: visit.now(),
        configured: Configured::Config(visit.config()),
    }
}

/// What the path names, if it names something.
fn target<D: Deed, R>(visit: &Visit<R>) -> Result<&str, Error> {
    match D::ABOUT.target {
        None => Ok(""),
        Some(name) => {
            if name == "id" {
                visit.id()?;
            }
            Ok(visit.path(name))
        }
    }
}

/// The page that asks. Its form is filled in with what is known.
pub async fn ask<D: Deed>(visit: Visit<Doer<D>>) -> Result<Response, Error> {
    let target = target::<D, _>(&visit)?;
    let known = match D::look(&site(&visit), target).await {
        Ok(known) => known,
        Err(why) => return refused(why),
    };
    let given = |name: &str| {
        let mut known = known.given.iter();
        Some(known.find(|(field, _)| *field == name)?.1.as_str())
    };
    let mut form = form::fields::<D>(given);
    form.retain(|it| {
        let is_target = D::ABOUT.target == Some(it.name.as_str());
        !is_target && !known.left_out.contains(&it.name.as_str())
    });
    let about = about::<D>();
    let back = match target {
        "" => D::ABOUT.list(),
        target => format!("{}/{target}", D::ABOUT.list()),
    };
    let asked = D::ABOUT.question.ok_or(Error::NotFound)?;
    let typed = D::TYPED.map(|it| Input {
        kind: it.kind,
        ..Input::text(it.name, it.label, it.help)
    });
    let question = Question {
        here: D::ABOUT.list(),
        title: asked.title.to_owned(),
        about,
        facts: known.facts,
        to: Some(D::ABOUT.path(target)),
        label: asked.button,
        look: look::<D>(),
        fields: fields(&visit, None),
        form,
        inputs: typed.into_iter().collect(),
        back,
        command: command::<D>(target),
        ..Question::default()
    };
    Ok(question.answer(&visit))
}

/// Does what the form says.
pub async fn answer<D: Deed>(write: Write<Doer<D>>) -> Result<Response, Error> {
    let deed: D = read(&write)?;
    carry_out(write, deed).await
}

/// What the address and the form say.
pub fn read<D: Deed>(write: &Write<Doer<D>>) -> Result<D, Error> {
    let target = target::<D, _>(write)?;
    let given = |name: &str| {
        if D::ABOUT.target == Some(name) {
            return Some(target);
        }
        write.fields.has(name).then(|| write.fields.get(name))
    };
    form::read(given, D::ABOUT.empty).map_err(Error::impossible)
}

/// Does it, and leads to what came of it.
pub async fn carry_out<D: Deed, R>(write: Write<R>, deed: D) -> Result<Response, Error> {
    carry_out_from(write, deed, None).await
}

/// The same, and leads to this page.
pub async fn carry_out_from<D: Deed, R>(
    mut write: Write<R>,
    deed: D,
    from: Option<String>,
) -> Result<Response, Error> {
    let done = match perform(&mut write, deed).await? {
        Ok(done) => done,
        Err(Refused::Changed(page, _)) => {
            return Ok(act::see(&from.unwrap_or(page), said::CHANGED));
        }
        Err(why) => return refused(why),
    };
    let page = from.unwrap_or(done.page);
    let Some(made) = done.secret else {
        return Ok(act::lead(&page, &name_of::<D>(done.says)));
    };
    let shown = Secret {
        here: D::ABOUT.list(),
        title: made.title,
        about: made.about,
        secret: made.secret,
        next: page,
    };
    Ok(shown.answer(&write))
}

/// Does it. The outer error is one of the form.
pub async fn perform<D: Deed, R>(
    write: &mut Write<R>,
    deed: D,
) -> Result<Result<Done, Refused>, Error> {
    if D::ABOUT.is_slow {
        write.end_turn();
    }
    let (parts, now) = (write.parts(), write.now());
    let asked_at = write.fields.maybe("now")?.map_or(now, Timestamp);
    // A page that asks says the id of what is made.
    let id = if D::ABOUT.question.is_some() {
        write.fields.read("id")?
    } else {
        write.new_id()
    };
    let seen = if D::ABOUT.is_of_seen {
        Some(write.fields.read("seen")?)
    } else {
        None
    };
    let typed = D::TYPED.map(|it| write.fields.get(it.name));
    let desk = Desk {
        site: Site {
            db: &parts.db,
            ..site(write)
        },
        by: write.by(),
        clock: &parts.clock,
        bus: Some(&parts.bus),
        heard: "workers are notified at once",
        id,
        asked_at,
        seen,
        patience: PATIENCE,
        remembered: parts.config.dedupe_ttl,
        typed,
        secret: &|secret| Ok(secret.trim().to_owned()),
    };
    Ok(deed.run(&desk).await)
}

pub fn refused(why: Refused) -> Result<Response, Error> {
    match why {
        Refused::Changed(page, _) => Ok(act::see(&page, said::CHANGED)),
        Refused::Unknown(what, _) => Err(Error::Unknown(what)),
        Refused::Database(error) => Err(error.into()),
        Refused::Advised(why, _) => refused(*why),
        why => Err(Error::impossible(why)),
    }
}
