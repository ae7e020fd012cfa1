//! The table of all that can be changed from a page. Each is made by [`Writes::add`], which takes a handler
//! of a [`Write`] alone: so each has a role, and comes from a page of the session.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::post;
use domain::api_key::Role;

use crate::Console;
use crate::access::{Needs, Write};
use crate::error::Error;
use crate::pages::{
    body, connections, dead, endpoints, job, keys, licenses, operations, pauses, privacy, reconcile,
};

/// The routes, and which role each needs.
#[derive(Default)]
pub struct Writes {
    pub(crate) router: Router<Arc<Console>>,
    /// The path of each, with the names of its parts, and its role.
    pub roles: Vec<(&'static str, Role)>,
}

pub fn table() -> Writes {
    Writes::default()
        .add("/jobs/{id}/run-now", job::run_now)
        .add("/jobs/{id}/requeue", job::requeue)
        .add("/jobs/{id}/discard", job::discard)
        .add("/jobs/{id}/field", body::field)
        .add("/dead/requeue", dead::requeue)
        .add("/dead/discard", dead::discard)
        .add("/dead/chosen/requeue", dead::requeue_chosen)
        .add("/dead/chosen/discard", dead::discard_chosen)
        .add("/operations/{id}/stop", operations::stop)
        .add("/operations/{id}/resume", operations::resume)
        .add("/operations/{id}/undo", operations::undo)
        .add("/pauses/begin", pauses::begin)
        .add("/pauses/{id}/end", pauses::end)
        .add("/reconcile/ask", reconcile::ask)
        .add("/privacy/enter", privacy::enter)
        .add("/privacy/{id}/retry", privacy::retry)
        .add("/privacy/{id}/cancel", privacy::cancel)
        .add("/privacy/{id}/confirm", privacy::confirm)
        .add("/privacy/{id}/decide", privacy::decide)
        .add("/privacy/{id}/export", privacy::fetch_export)
        .add("/keys/create", keys::create)
        .add("/keys/{id}/revoke", keys::revoke)
        .add("/licenses/grant", licenses::grant)
        .add("/licenses/{id}/suspend", licenses::suspend)
        .add("/licenses/{id}/resume", licenses::resume)
        .add("/licenses/{id}/revoke", licenses::revoke)
        .add("/endpoints/add", endpoints::add)
        .add("/endpoints/{id}/test", endpoints::test)
        .add("/endpoints/{id}/pause", endpoints::pause)
        .add("/endpoints/{id}/resume", endpoints::resume)
        .add("/endpoints/{id}/rotate", endpoints::rotate)
        .add("/endpoints/{id}/remove", endpoints::remove)
        .add("/connections/add", connections::add)
        .add("/connections/{name}/pause", connections::pause)
        .add("/connections/{name}/resume", connections::resume)
        .add("/connections/{name}/change", connections::change)
        .add("/connections/{name}/rotate", connections::rotate)
        .add("/connections/{name}/remove", connections::remove)
}

impl Writes {
    fn add<R, H, F>(mut self, path: &'static str, handler: H) -> Self
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
        self.roles.push((path, R::ROLE));
        self
    }
}
