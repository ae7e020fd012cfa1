//! `customers/data_request`: everything held on a customer, as one document.

use anyhow::{Result, bail};
use common::job::Job;
use common::privacy::Request;
use common::process::Parts;
use common::sql::Tx;

use super::super::effects::Effects;
use super::{Done, Written};

pub async fn write(_parts: &Parts, _job: &Job, _request: &Request) -> Result<Done> {
    bail!("to be built")
}

/// Notes the export with its request, unless the customer's data was erased meanwhile.
pub async fn record(
    _effects: &mut Effects<'_>,
    _tx: &mut Tx,
    _job: &Job,
    _request: &Request,
    _written: &Written,
) -> Result<()> {
    bail!("to be built")
}
