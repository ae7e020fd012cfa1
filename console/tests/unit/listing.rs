//! Tests of what is private in `src/listing.rs`.

use super::*;

#[test]
fn a_page_shows_the_columns_in_which_rows_differ() {
    let job = |id: &str| Cell::link(id, format!("/jobs/{id}"));
    let mut table = Table {
        lesser: vec!["At"],
        ..Table::new(&["At", "Shop", "Error", "About", "Job"])
    };
    for id in ["1", "2"] {
        table.row(vec![
            Cell::text(id),
            Cell::text("a.example"),
            Cell::None,
            Cell::link("7", "/orders/7".to_owned()),
            job(id),
        ]);
    }
    let seen = table.seen();
    let names: Vec<_> = seen.columns.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["At", "About", "Job"],
        "a link is shown though all are the same"
    );
    assert_eq!(seen.columns[0].1, "lesser");
    assert_eq!(seen.same, [("Shop", &Cell::text("a.example"))]);
    let opens: Vec<_> = seen.rows[0].cells.iter().map(|it| it.opens).collect();
    assert_eq!(opens, [false, false, true], "the last link is the row's");
    table.rows.truncate(1);
    let names: Vec<_> = table.seen().columns.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["At", "Shop", "About", "Job"],
        "of one row nothing is the same"
    );
    table.is_whole = true;
    assert_eq!(table.seen().columns.len(), 5);
}
