//! The statements of an export.

use std::collections::BTreeSet;

use store::person_data::EXPORTED;

#[test]
fn each_exported_column_stands_in_its_statements_once() {
    let mut names = BTreeSet::new();
    for table in EXPORTED {
        assert!(names.insert(table.name), "{} is there once", table.name);
        for statement in table.statements() {
            let (columns, rest) = statement.split_once(" from ").unwrap();
            let columns: Vec<&str> = columns["select ".len()..].split(", ").collect();
            let named: Vec<&str> = table.columns.iter().map(|it| it.name).collect();
            assert_eq!(columns, named, "{}", table.name);
            assert!(rest.starts_with(&format!("{} where ", table.name)));
        }
        let names: BTreeSet<&str> = table.columns.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), table.columns.len(), "{}", table.name);
    }
}
