//! What must hold for every input holds for those that `scripts/fuzz` has kept.

#[path = "../../../../fuzz/src/kept.rs"]
mod kept;
#[path = "../../../../fuzz/src/domain/mod.rs"]
mod rules;

use kept::check;

#[test]
fn what_must_hold_holds_for_every_kept_input() {
    check("signatures", rules::signatures::check);
    check("profiles", rules::profiles::check);
    check("envelopes", rules::envelopes::check);
    check("orders", rules::orders::check);
    check("payments", rules::payments::check);
    check("privacy", rules::privacy::check);
    check("erased", rules::erased::check);
    check("redaction", rules::redaction::check);
    check("queries", rules::queries::check);
    check("money", rules::money::check);
    check("times", rules::times::check);
}
