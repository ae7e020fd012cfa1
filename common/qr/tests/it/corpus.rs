//! What must hold for every input holds for those that `scripts/fuzz` has kept.

#[path = "../../../../fuzz/src/amounts.rs"]
mod amounts;
#[path = "../../../../fuzz/src/kept.rs"]
mod kept;
#[path = "../../../../fuzz/src/qr.rs"]
mod links;

use kept::check;

#[test]
fn what_must_hold_holds_for_every_kept_input() {
    check("amounts", amounts::check);
    check("qr", links::check);
}
