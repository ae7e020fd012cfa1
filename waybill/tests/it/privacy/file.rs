//! When the file of a database is rewritten without what was erased.

use std::time::Duration;

use domain::job::Queue;
use serde_json::json;
use workers::Worker;

use crate::support::canary::{Found, Gaps, scan_database_files, word};
use crate::support::delivery::{SHOP, storefront};
use crate::support::order::{body, deliver, order_delivery, with};
use crate::support::service;

const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

#[tokio::test]
async fn a_file_is_rewritten_at_a_quiet_moment_once_a_day_and_after_three_days_in_any_case() {
    let service = service().new_files().manual_clock().start().await;
    let clock = || service.clock();
    let rewritten = async || {
        let worker = Worker::new(service.parts.clone(), Queue::Privacy, 1);
        worker.keep_house().await.unwrap();
        let entries = "select count(*) as n from audit where action = 'file.rewritten'";
        service.count(entries).await
    };
    let order_of = |id: i64, second: u32| {
        let person = json!({
            "customer": {"id": 1000 + id, "first_name": word(usize::try_from(id).unwrap(), "first")},
        });
        order_delivery("orders/updated", &with(body(id, second, "paid"), &person))
    };
    let is_erased = async |id: i64| {
        deliver(&service, &order_of(id, 1)).await;
        let request = json!({
            "shop_id": 1, "shop_domain": SHOP, "customer": {"id": 1000 + id}, "orders_to_redact": [],
        });
        deliver(
            &service,
            &storefront("customers/redact", request.to_string()),
        )
        .await;
    };
    clock().advance(10 * MINUTE);
    assert_eq!(rewritten().await, 0, "nothing was erased");

    is_erased(1).await;
    assert_eq!(rewritten().await, 0, "it is not quiet");
    clock().advance(MINUTE + Duration::from_secs(1));
    assert_eq!(rewritten().await, 1);

    is_erased(2).await;
    clock().advance(10 * MINUTE);
    assert_eq!(rewritten().await, 1, "once a day");
    clock().advance(DAY);
    assert_eq!(rewritten().await, 2);
    clock().advance(10 * DAY);
    assert_eq!(rewritten().await, 2, "nothing was erased since");

    is_erased(3).await;
    clock().advance(2 * DAY + 1439 * MINUTE);
    deliver(&service, &order_of(4, 1)).await;
    assert_eq!(rewritten().await, 2, "it is not quiet");
    clock().advance(MINUTE);
    deliver(&service, &order_of(4, 2)).await;
    assert_eq!(rewritten().await, 3, "it has waited for long enough");
    let mut found = Found::new();
    scan_database_files(&service.backend, Gaps::All, &mut found).await;
    assert_eq!(found.into_keys().collect::<Vec<_>>(), [4]);
    service.stop().await;
}
