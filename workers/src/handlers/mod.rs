//! Which kinds of jobs there are and what runs them. A handler has two halves: `prepare`
//! reads one body and computes, without any I/O; `apply` writes the rows of a whole message
//! in the given transaction, all or nothing.

mod create_order;

use anyhow::{Result, bail};
use common::clock::Clock;
use common::config::Config;
use common::job::{Job, Queue};
use common::sql::Tx;

/// A job ready to be applied.
pub struct Prepared {
    pub job: Job,
    pub task: Task,
}

/// What a handler has made of a body.
pub enum Task {
    CreateOrder(Box<create_order::Task>),
}

/// The kinds that this version runs; others wait untouched.
pub fn kinds(queue: Queue) -> &'static [&'static str] {
    match queue {
        Queue::Orders => &["orders/create"],
        Queue::Payments | Queue::Privacy => &[],
    }
}

/// The pure half of the handler of the job's kind.
pub fn prepare(config: &Config, job: &Job) -> Result<Task> {
    match job.kind.as_str() {
        "orders/create" => Ok(Task::CreateOrder(Box::new(create_order::prepare(
            config, job,
        )?))),
        kind => bail!("there is no handler for {kind}"),
    }
}

/// The writing half, for jobs that were marked done in `tx`.
pub async fn apply(clock: &Clock, tx: &mut Tx, prepared: &[&Prepared]) -> Result<()> {
    let mut created = Vec::new();
    for prepared in prepared {
        match &prepared.task {
            Task::CreateOrder(task) => created.push((&prepared.job, &**task)),
        }
    }
    create_order::apply(clock, tx, &created).await
}
