//! Links to an export.

use domain::privacy::Keys;
use domain::privacy::link::{is_good, path};
use domain::time::Timestamp;
use uuid::Uuid;

#[test]
fn a_link_is_good_for_one_export_until_it_ends() {
    let keys = Keys::new(vec![1; 32]);
    let (id, expires) = (Uuid::from_u128(7), 1_800_000_300);
    let path = path(&keys, id, expires);
    let (_, signature) = path.split_once("signature=").unwrap();
    let good = |id, expires, signature: &str, seconds| {
        let now = Timestamp::from_unix_seconds(seconds);
        is_good(&keys, id, expires, signature, now)
    };
    assert!(good(id, expires, signature, expires - 1));
    assert!(good(id, expires, signature, expires - 300));
    assert!(!good(id, expires, signature, expires - 301));
    assert!(!good(id, expires, signature, expires));
    assert!(!good(id, expires + 60, signature, expires));
    assert!(!good(Uuid::from_u128(8), expires, signature, expires - 1));
    assert!(!good(id, expires, &signature[1..], expires - 1));
    assert!(!good(id, expires, "", expires - 1));
    let other = Keys::new(vec![2; 32]);
    let now = Timestamp::from_unix_seconds(expires - 1);
    assert!(!is_good(&other, id, expires, signature, now));
}
