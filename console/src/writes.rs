//! The table of all that can be changed from a page. Each is made by [`Writes::add`], which takes a handler
//! of a [`Write`] alone: so each has a role, and comes from a page of the session.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::response::Response;
use axum::routing::post;
use domain::api_key::Role;
use lists::deeds::{
    Deed, attention as of_attention, connections as of_connections, endpoints as of_endpoints,
    jobs as of_jobs, keys as of_keys, licenses as of_licenses, operations as of_operations,
    pauses as of_pauses, privacy as of_privacy, reconcile as of_reconcile,
};

use crate::Console;
use crate::access::{Needs, Write};
use crate::act::said;
use crate::deed::{self, Doer};
use crate::error::Error;
use crate::pages::{body, dead, keys, pauses, privacy};
use crate::routes::page;

/// The routes, which role each needs, and what may be said afterwards.
#[derive(Default)]
pub struct Writes {
    pub(crate) router: Router<Arc<Console>>,
    /// The path of each, with the names of its parts, and its role.
    pub roles: Vec<(String, Role)>,
    sentences: Vec<(String, &'static str)>,
}

pub fn table() -> Writes {
    let said = said::ALL.iter();
    Writes {
        sentences: said.map(|it| (it.0.to_owned(), it.1)).collect(),
        ..Writes::default()
    }
    .deed::<of_jobs::RunNow>()
    .filled_in_by::<of_jobs::Requeue, _, _>(dead::to_chosen)
    .filled_in_by::<of_jobs::Discard, _, _>(dead::to_chosen)
    .filled_in_by::<of_jobs::ProcessAgain, _, _>(dead::to_chosen)
    .filled_in_by::<of_jobs::Field, _, _>(body::field)
    .add("/dead/all/requeue", dead::confirm::<of_jobs::Requeue>)
    .add("/dead/all/discard", dead::confirm::<of_jobs::Discard>)
    .deed::<of_reconcile::Ask>()
    .add("/privacy/{id}/export", privacy::fetch_export)
    .deed::<of_attention::Acknowledge>()
    .deed::<of_operations::Stop>()
    .deed::<of_operations::Resume>()
    .deed::<of_operations::TakeBack>()
    .deed::<of_pauses::Begin>()
    .filled_in_by::<of_pauses::End, _, _>(pauses::end)
    .deed::<of_privacy::Request>()
    .deed::<of_privacy::Retry>()
    .deed::<of_privacy::Cancel>()
    .deed::<of_privacy::Confirm>()
    .filled_in_by::<of_privacy::Decide, _, _>(privacy::decide)
    .filled_in_by::<of_keys::Create, _, _>(keys::create)
    .deed::<of_keys::Revoke>()
    .deed::<of_licenses::Grant>()
    .deed::<of_licenses::Suspend>()
    .deed::<of_licenses::Resume>()
    .deed::<of_licenses::Revoke>()
    .deed::<of_endpoints::Add>()
    .deed::<of_endpoints::Test>()
    .deed::<of_endpoints::Pause>()
    .deed::<of_endpoints::Resume>()
    .deed::<of_endpoints::Rotate>()
    .deed::<of_endpoints::Remove>()
    .deed::<of_connections::Add>()
    .deed::<of_connections::Pause>()
    .deed::<of_connections::Resume>()
    .deed::<of_connections::Change>()
    .deed::<of_connections::Rotate>()
    .deed::<of_connections::Remove>()
}

/// What is said of what was done, by the name that an address has.
pub fn sentence(name: &str) -> Option<&'static str> {
    static SENTENCES: LazyLock<Vec<(String, &str)>> = LazyLock::new(|| table().sentences);
    let found = SENTENCES.iter().find(|(known, _)| known == name);
    found.map(|(_, text)| *text)
}

impl Writes {
    /// A deed with the page that asks, where one does.
    fn deed<D: Deed>(mut self) -> Self {
        if D::ABOUT.question.is_some() {
            let ask = page(deed::ask::<D>);
            self.router = self.router.route(&D::ABOUT.route(), ask);
        }
        self.filled_in_by::<D, _, _>(deed::answer::<D>)
    }

    /// A deed whose form is its own.
    fn filled_in_by<D, H, F>(mut self, handler: H) -> Self
    where
        D: Deed,
        H: Fn(Write<Doer<D>>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        let said = D::SAYS.iter();
        let said = said.map(|text| (deed::name_of::<D>(text), *text));
        self.sentences.extend(said);
        self.add(&D::ABOUT.route(), handler)
    }

    fn add<R, H, F>(mut self, path: &str, handler: H) -> Self
    where
        R: Needs,
        H: Fn(Write<R>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        let handler = post(async move |write: Write<R>| {
            let console = write.console();
            let answer = handler(write).await;
            // The next page counts anew.
            console.known.forget_counts().await;
            answer
        });
        self.router = self.router.route(path, handler);
        self.roles.push((path.to_owned(), R::ROLE));
        self
    }
}
