//! Tests of what is private in `src/commands/backup/postgres.rs`.

use super::*;

#[test]
fn libpq_gets_the_connection_and_no_password() {
    for (url, expected, password) in [
        (
            "postgres://shop:s%40fe@db.example:5433/waybill?sslmode=verify-full&statement-cache-capacity=9",
            "postgres://shop@db.example:5433/waybill?sslmode=verify-full",
            Some("s@fe"),
        ),
        (
            "postgres:///waybill?host=/run/postgresql&ssl-mode=disable",
            "postgres:///waybill?host=/run/postgresql&sslmode=disable",
            None,
        ),
    ] {
        let expected = (expected.to_owned(), password.map(ToOwned::to_owned));
        assert_eq!(for_libpq(url), expected, "{url}");
    }
}
