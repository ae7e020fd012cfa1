//! `GET /templates/list` lists the templates of the caller's tier, and the features and price of
//! each tier. With a licence that is not active the caller gets the templates of `free`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::catalogue::Template;
use domain::license::{TERMS, Terms, Tier};
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::{Bearer, Client};
use crate::App;
use crate::error::Error;
use crate::openapi::operation::{Operation, get, tagged};
use crate::validation;

pub fn routes() -> Vec<Operation> {
    let list = get("/templates/list", list)
        .is("listTemplates", "The templates of the caller's tier")
        .answers::<TemplateList>(200, "The templates.");
    tagged("Login", [list])
}

#[derive(Serialize, ToSchema)]
pub struct TemplateList<'a> {
    /// The tier whose templates these are.
    tier: Tier,
    templates: Vec<&'a Template>,
    /// What each tier has and costs, lowest first.
    tiers: &'static [Terms],
}

pub async fn list(
    State(app): State<Arc<App>>,
    Bearer(token): Bearer,
    Client(client): Client,
) -> Result<Response, Error> {
    let holder = validation::holder(&app, &token, client).await?;
    let (tier, _) = holder.usable();
    let templates = app.config.catalogue.of(tier).collect();
    let tiers = &TERMS;
    Ok(Json(TemplateList {
        tier,
        templates,
        tiers,
    })
    .into_response())
}
