//! The body of a job: its fields, and of their values only those that an erasure would keep. And one field as
//! it came, for those who have a reason.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use domain::api_key::Role;
use domain::privacy::operator_view;
use lists::deeds::jobs::Field;
use operators::fields::Reason;
use store::jobs::Summary;
use store::{deliveries, sql};
use uuid::Uuid;

use crate::access::{Reader, Visit, Write};
use crate::deed::{self, Doer};
use crate::error::Error;
use crate::frame::Frame;

/// More bytes than this of a body are left to the command.
const MOST: usize = 256 * 1024;

/// What is shown of a body.
#[derive(Default)]
pub struct Body {
    pub id: Uuid,
    /// None when it is not kept any more.
    pub text: Option<String>,
    pub is_cut: bool,
    /// It never had one.
    pub is_without: bool,
    /// The reasons to choose from, for those who may see a field as it came.
    pub reasons: Option<[Reason; 4]>,
}

impl Body {
    pub async fn of(visit: &Visit<Reader>, job: &Summary) -> sql::Result<Self> {
        let body = deliveries::body(visit.db(), job.id).await?;
        let body = body.filter(|body| !body.is_empty());
        let mut text = body.map(|body| {
            let view = operator_view(&job.kind, job.source == "internal", &body);
            // The alternate form of a value is its JSON over several lines.
            format!("{view:#}")
        });
        let is_cut = text.as_ref().is_some_and(|text| text.len() > MOST);
        if let Some(text) = text.as_mut().filter(|_| is_cut) {
            text.truncate(text.floor_char_boundary(MOST));
        }
        Ok(Body {
            id: job.id,
            reasons: (text.is_some() && visit.may(Role::Privacy)).then_some(Reason::ALL),
            text,
            is_cut,
            is_without: job.body_bytes.is_none(),
        })
    }
}

#[derive(Template)]
#[template(path = "field.html")]
struct FieldPage<'a> {
    frame: Frame<'a>,
    path: &'a str,
    value: &'a str,
    reason: &'a str,
    back: String,
}

/// Shows a field on this answer alone. Each time it is asked for, the audit has an entry more.
pub async fn field(mut write: Write<Doer<Field>>) -> Result<Response, Error> {
    let asked: Field = deed::read(&write)?;
    let done = match deed::perform(&mut write, asked.clone()).await? {
        Ok(done) => done,
        Err(why) => return deed::refused(why),
    };
    let page = FieldPage {
        frame: Frame::of(&write, "/deliveries"),
        path: &asked.path,
        value: &format!("{:#}", done.json),
        reason: asked.reason.text(),
        back: done.page,
    };
    Ok(Html(page.to_string()).into_response())
}
