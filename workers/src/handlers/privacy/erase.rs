//! `customers/redact`: what identifies a customer is erased, amounts, ids and states stay.

use anyhow::{Result, bail};
use common::job::Job;
use common::privacy::Request;
use common::process::Parts;

use super::Done;

pub async fn customer(_parts: &Parts, _job: &Job, _request: &Request) -> Result<Done> {
    bail!("to be built")
}

/// A late order of somebody whose data was erased: erases what came with it.
pub async fn again(_parts: &Parts, _job: &Job) -> Result<Done> {
    bail!("to be built")
}
