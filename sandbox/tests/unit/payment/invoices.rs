//! Tests of what is private in `src/payment/invoices.rs`.

use super::months_after;

#[test]
fn a_day_that_the_month_lacks_becomes_its_last() {
    let last_of_january = 1_801_353_600; // 2027-01-31
    let month = |nth| months_after(last_of_january, nth).unwrap();
    assert_eq!(month(0), last_of_january);
    assert_eq!(month(1) - month(0), 28 * 86_400, "to 2027-02-28");
    assert_eq!(month(2) - month(0), 59 * 86_400, "to 2027-03-31");
    assert_eq!(month(12) - month(0), 365 * 86_400);
    assert_eq!(month(13) - month(12), 29 * 86_400, "to 2028-02-29");
}
