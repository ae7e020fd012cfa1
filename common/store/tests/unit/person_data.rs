//! Tests of what is private in `src/person_data.rs`.

use super::*;

#[test]
fn whatever_is_personal_is_exported() {
    assert_eq!(EXPORTED.len(), WAYS.len());
    for Exported { table, .. } in EXPORTED.iter() {
        let is_shown = |key: &Column| shown(table).any(|it| it.name == key.name);
        assert!(table.key.iter().all(is_shown), "{}", table.name);
    }
    let exported: BTreeSet<&str> = EXPORTED.iter().map(|it| it.table.name).collect();
    let columns = |table: &'static Table| table.columns.iter().map(move |it| (table.name, it));
    let personal = TABLES.iter().flat_map(columns);
    let personal = personal.filter(|(_, column)| column.is_personal());
    let left: Vec<_> = personal
        .filter(|(table, _)| !exported.contains(table))
        .map(|(table, column)| (table, column.name))
        .collect();
    assert_eq!(
        left,
        [("deliveries", "body")],
        "deliveries have a scan of their own"
    );
}

#[test]
fn each_record_is_exported_by_its_type() {
    let has_record = |it: &&Table| it.columns.iter().any(|it| it.class == Some(Class::Record));
    let tables: BTreeSet<&str> = TABLES.iter().filter(has_record).map(|it| it.name).collect();
    let types = [
        CustomerEntry::TABLE,
        Order::TABLE,
        PaymentEntry::TABLE,
        SessionEntry::TABLE,
        Subscription::TABLE,
    ];
    assert_eq!(tables, types.into());
}
