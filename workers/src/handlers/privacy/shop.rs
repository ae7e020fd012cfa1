//! `shop/redact`: every row of a shop is deleted, batch by batch.

use anyhow::{Result, bail};
use common::job::Job;
use common::privacy::Request;
use common::process::Parts;

use super::Done;

pub async fn erase(_parts: &Parts, _job: &Job, _request: &Request) -> Result<Done> {
    bail!("to be built")
}
