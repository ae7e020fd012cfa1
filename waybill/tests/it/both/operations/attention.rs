//! Operators are notified once of what needs a person: with several replicas, when a process dies at any moment, and when it
//! comes and goes.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::attention::CALM;
use domain::job::{Queue, Source};
use workers::attention::Watch;

use crate::support::job;
use crate::support::smtp::{Received, Reply, SmtpServer, TAKEN};
use crate::support::{Options, Service, eventually, service};

const MINUTE: Duration = Duration::from_mins(1);
const EVENTS: &str = "select count(*) as n from events where kind = 'operator.attention' and object_id = 'jobs_dead'";

fn watched(server: &SmtpServer) -> Options {
    service()
        .without_workers()
        .setting("SMTP_URL", &server.url())
        .setting("MAIL_FROM", "shop@shop.example")
        .setting("OPERATORS_MAIL", "ops@shop.example")
}

async fn dies(service: &Service) {
    let kind = "refunds/issue";
    let now = service.clock().now();
    let new = job::ready(
        service.clock().id(),
        Queue::Payments,
        Source::Internal,
        kind,
        now,
    );
    job::insert(service.db(), &[new]).await;
    service
        .execute("update jobs set state = 'dead', finished_at = run_at")
        .await;
}

async fn is_mended(service: &Service) {
    service.execute("delete from jobs").await;
    service.execute("delete from deliveries").await;
}

/// The mails about the dead job. On PostgreSQL there may be others, because the server has a clock of its own.
fn of_the_job(server: &SmtpServer) -> Vec<Received> {
    let mails = server.received().into_iter();
    mails
        .filter(|it| it.body().contains("- A refunds/issue job is dead"))
        .collect()
}

/// All look at once, then one after the other: nobody holds the lease, so each of them looks for itself.
async fn look(watches: &mut [Watch; 3]) {
    let [one, two, three] = &mut *watches;
    let all = futures_util::future::join3(one.round(), two.round(), three.round());
    // Boxed, because it is large.
    let all = Box::pin(all).await;
    all.0.and(all.1).and(all.2).unwrap();
    for watch in &*watches {
        watch.hand_over().await;
    }
    for watch in watches {
        watch.round().await.unwrap();
        watch.hand_over().await;
    }
}

#[tokio::test]
async fn three_replicas_tell_once_that_it_begins_and_once_that_it_is_over_however_often_it_comes_and_goes()
 {
    let server = SmtpServer::start().await;
    let first = watched(&server).manual_clock().start().await;
    let clock = first.clock().clone();
    let second = watched(&server).clock(&clock).start_beside(&first).await;
    let third = watched(&server).clock(&clock).start_beside(&first).await;
    let mut watches = [&first, &second, &third].map(|it| Watch::new(it.parts.clone()));
    look(&mut watches).await;
    assert!(server.received().is_empty());
    dies(&first).await;
    look(&mut watches).await;
    // It comes and goes for half an hour.
    for _ in 0..15 {
        is_mended(&first).await;
        clock.advance(MINUTE);
        look(&mut watches).await;
        dies(&first).await;
        clock.advance(MINUTE);
        look(&mut watches).await;
    }
    let mails = of_the_job(&server);
    assert_eq!(mails.len(), 1, "{mails:?}");
    assert_eq!(mails[0].to, "ops@shop.example");
    let subject = mails[0].header("Subject").unwrap();
    assert!(subject.contains("A refunds/issue job is dead"), "{subject}");
    let text = mails[0].body();
    assert!(
        text.contains("1 dead") && text.contains("waybill dead summary"),
        "{text}"
    );
    assert_eq!(first.count(EVENTS).await, 1);

    is_mended(&first).await;
    clock.advance(CALM);
    look(&mut watches).await;
    look(&mut watches).await;
    let mails = of_the_job(&server);
    assert_eq!(mails.len(), 2, "{mails:?}");
    let text = mails[1].body();
    let (_, over) = text.split_once("This is over:").unwrap();
    assert!(over.contains("- A refunds/issue job is dead"), "{text}");
    assert_eq!(first.count(EVENTS).await, 2);
    let kept = "select count(*) as n from attention where condition = 'jobs_dead'";
    assert_eq!(first.count(kept).await, 0);
    third.stop().await;
    second.stop().await;
    first.stop().await;
}

#[tokio::test]
async fn a_process_that_dies_when_the_server_has_the_mail_is_followed_by_one_that_sends_the_same_mail()
 {
    let server = SmtpServer::start().await;
    let service = watched(&server).manual_clock().start().await;
    dies(&service).await;
    server.at(TAKEN, Reply::Hang);
    let mut watch = Watch::new(service.parts.clone());
    let process = platform::task::spawn("a process that dies", async move {
        watch.round().await.unwrap();
    });
    eventually("the server has the mail", async || {
        server.received().len() == 1
    })
    .await;
    process.abort();
    let _ = process.await;
    server.be_kind();
    service.clock().advance(2 * MINUTE);
    let mut next = Watch::new(service.parts.clone());
    next.round().await.unwrap();
    service.clock().advance(2 * MINUTE);
    next.round().await.unwrap();
    let mails = server.received();
    let ids: BTreeSet<_> = mails.iter().map(|it| it.header("Message-ID")).collect();
    assert_eq!((mails.len(), ids.len()), (2, 1), "{mails:?}");
    assert_eq!(service.count(EVENTS).await, 1);
    service.stop().await;
}
