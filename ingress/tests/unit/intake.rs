//! Tests of what is private in `src/intake.rs`.

use super::*;

#[test]
fn a_batch_takes_bodies_up_to_its_bytes_and_at_least_one() {
    const MIB: usize = 1024 * 1024;
    let fitting = |sizes: &[usize]| fitting(sizes.iter().copied());
    assert_eq!(fitting(&[2 * MIB; 30]), 2);
    assert_eq!(fitting(&[2000; BATCH]), BATCH);
    assert_eq!(fitting(&[5 * MIB, 1]), 1);
    assert_eq!(fitting(&[1, 5 * MIB, 1]), 1);
}
