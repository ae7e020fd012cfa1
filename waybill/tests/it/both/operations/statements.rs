//! No statement reads a whole table: each is explained on tables that are filled, by PostgreSQL
//! with the plan for any values, and by SQLite.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use store::sql::{Db, Tx};

use crate::support::backend::{Backend, is_distributed, statement};
use crate::support::statements::{self, Statement};

/// Rows of each table. From about a thousand on PostgreSQL prefers an index to the whole table.
const ROWS: i64 = 4_000;

/// How many rows the largest tables get.
const MANY_ROWS: i64 = 20_000;

/// Tables that may be read whole, and why they stay small.
const SMALL: [(&str, &str); 22] = [
    ("api_keys", "an operator makes each key"),
    (
        "attention",
        "a row for each condition that needs a person now",
    ),
    ("audit_head", "one row"),
    ("backups", "one row"),
    ("bulk_operations", "an operator begins each operation"),
    (
        "connection_shops",
        "an operator or a program adds each connection",
    ),
    (
        "connections",
        "an operator or a program adds each connection",
    ),
    ("console_sessions", "operators who are signed in"),
    ("endpoints", "an operator or a program adds each endpoint"),
    ("event_head", "one row"),
    (
        "export_links",
        "links that have not ended, an operator or a program asks for each",
    ),
    ("export_stores", "a row for each change of the setting"),
    ("identity_provider", "one row"),
    (
        "leases",
        "a row for each work that one process does at a time",
    ),
    ("measures", "a row for each measure and hour of a week"),
    ("orgs", "an operator makes each organization"),
    ("pauses", "an operator begins each pause"),
    ("privacy_keys", "one row"),
    (
        "reconciliations",
        "a row for each connected shop and account",
    ),
    (
        "refused_deliveries",
        "a row for each reason and hour, at most 10,000",
    ),
    ("signing_secrets", "a row for each secret of the settings"),
    ("_sqlx_migrations", "a row for each migration"),
];

/// Indexes that hold little of their table, and what that is. They may be read whole.
const FEW: [(&str, &str); 4] = [
    (
        "jobs_dead",
        "jobs that nobody has requeued or discarded; each look reads so many and no more",
    ),
    ("orders_disputed", "bodies that came again, or were refuted"),
    ("privacy_requests_due", "requests that are open"),
    ("privacy_requests_export", "exports of the last 30 days"),
];

fn is_small(table: &str) -> bool {
    SMALL.iter().any(|(name, _)| *name == table)
}

fn is_few(index: &str) -> bool {
    FEW.iter().any(|(name, _)| *name == index)
}

/// Statements that may read more than an index leads to: the file, what the statement has in it,
/// and why.
const ALLOWED: [(&str, &str, &str); 9] = [
    (
        "shop_erasure.rs",
        "listed_at <=",
        "an erasure reads all orders of its shop, also those that came after the request and stay",
    ),
    (
        "erasure/file.rs",
        "select 1 as busy",
        "it is asked on SQLite alone, while a file waits for its rewrite after an erasure",
    ),
    (
        "identity_provider.rs",
        "set provider_id = former_id",
        "an operator goes back to the identity provider before",
    ),
    (
        "jobs.rs",
        "select count(*) as jobs",
        "only tests count jobs",
    ),
    (
        "ledger.rs",
        "where substr(account, 1, length($1)) = $1",
        "an operator adds up accounts",
    ),
    (
        "ledger.rs",
        "group by 1, currency",
        "an operator adds up the books",
    ),
    (
        "licenses.rs",
        "order by licenses.id",
        "an operator lists all licences",
    ),
    (
        "licenses.rs",
        "orgs.id <> $1",
        "an operator grants a licence to an organization",
    ),
    (
        "privacy_requests.rs",
        "select count(*) as requests",
        "requests are few, and each is kept for good",
    ),
];

/// The ways in which this database may be given a statement: lists are written as `store` writes
/// them, a list of pairs with each type that the second of them may have.
fn as_sent(sql: &str) -> Vec<String> {
    let search = if is_distributed() {
        "position($2 in body) > 0"
    } else {
        "instr(body, $2) > 0"
    };
    let others = [3, 4, 5, 6, 7, 8, 9].map(|number| format!("length(${number}) = 1"));
    let search = format!("{search} or {}", others.join(" or "));
    let sql = sql.replace("contains(body, $2..$9)", &search);
    if is_distributed() {
        return ["bigint", "uuid"]
            .map(|second| write_lists(&sql, second))
            .into();
    }
    let sql = write_lists(&sql, "text");
    vec![
        sql.replace("for update skip locked", "")
            .replace("for update", ""),
    ]
}

/// Replaces each `in ($n..)`; `second` is the type of the second column, where it is for pairs.
fn write_lists(sql: &str, second: &str) -> String {
    let mut written = Vec::new();
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once("in ($") {
        let (number, after) = after.split_once("..)").expect("a list ends with ..)");
        let next = number.parse::<u32>().unwrap() + 1;
        written.push(before.to_owned());
        written.push(match (is_distributed(), is_pair(before)) {
            (true, false) => format!("= any(${number})"),
            (true, true) => {
                format!("in (select * from unnest(${number}::text[], ${next}::{second}[]))")
            }
            (false, false) => format!("in (${number}, ${next})"),
            (false, true) => format!(
                "in (select cast(column1 as text), column2 from (values (${number}, ${next})))"
            ),
        });
        rest = after;
    }
    written.push(rest.to_owned());
    written.concat()
}

/// Whether this ends with `(a, b)`, and not with a function's arguments.
fn is_pair(before: &str) -> bool {
    let before = before.trim_end();
    let Some(start) = before.rfind('(') else {
        return false;
    };
    before.ends_with(')')
        && before[start..].contains(',')
        && !before[..start].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
}

/// Why a statement's plan is not taken, if it is not.
type Verdict = Result<Option<String>, store::sql::Error>;

/// The columns of each index, in their sequence.
type Indexes = BTreeMap<String, Vec<String>>;

async fn indexes_of(db: &Db) -> Indexes {
    let rows = db
        .query(
            "select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid, nth, true) as col
             from pg_index, generate_series(1, indnkeyatts) as nth
             where indrelid in (select oid from pg_class where relnamespace = current_schema()::regnamespace)
             order by 1, nth",
        )
        .fetch_all()
        .await
        .unwrap();
    let mut indexes = Indexes::new();
    for row in rows {
        let columns = indexes.entry(row.get("name").unwrap()).or_default();
        columns.push(row.get("col").unwrap());
    }
    indexes
}

async fn explain_on_postgres(db: &Db, sql: &str, indexes: &Indexes) -> Verdict {
    // `store` sends the type of each value, which some statements do not tell.
    let mut types: Vec<&str> = Vec::new();
    let explained = loop {
        let mut tx = db.begin().await?;
        for setting in ["plan_cache_mode = force_generic_plan"] {
            tx.query(statement(format!("set local {setting}")))
                .execute()
                .await?;
        }
        let explained = explain(&mut tx, sql, &types).await;
        tx.rollback().await?;
        let error = explained
            .as_ref()
            .err()
            .map(ToString::to_string)
            .unwrap_or_default();
        if let Some((_, after)) = error.split_once("could not determine data type of parameter $") {
            let end = after
                .find(|letter: char| !letter.is_ascii_digit())
                .unwrap_or(after.len());
            let n: usize = after[..end].parse().unwrap();
            types.resize(types.len().max(n), "unknown");
            types[n - 1] = "text";
        } else if let Some((_, after)) = error.split_once("operator does not exist: ")
            && let Some(wrong) = types.iter_mut().rev().find(|it| **it == "text")
        {
            *wrong = if after.starts_with("uuid") {
                "uuid"
            } else {
                "bigint"
            };
        } else {
            break explained;
        }
    };
    let plan: Value = serde_json::from_str(&explained?).unwrap();
    let mut faults = String::new();
    judge(&plan[0]["Plan"], false, &mut faults);
    find_gaps(&plan[0]["Plan"], indexes, &mut faults);
    Ok(Some(faults).filter(|faults| !faults.is_empty()))
}

async fn explain(tx: &mut Tx, sql: &str, types: &[&str]) -> Result<String, store::sql::Error> {
    let types = if types.is_empty() {
        String::new()
    } else {
        format!("({})", types.join(", "))
    };
    tx.query(statement(format!("prepare it {types} as {sql}")))
        .execute()
        .await?;
    let types = tx
        .query("select cast(cardinality(parameter_types) as bigint) as n from pg_prepared_statements where name = 'it'")
        .fetch_one()
        .await?;
    let values = vec!["null"; usize::try_from(types.get::<i64>("n")?).unwrap()].join(", ");
    let values = if values.is_empty() {
        values
    } else {
        format!("({values})")
    };
    let explain = format!("explain (format json) execute it{values}");
    let row = tx.query(statement(explain)).fetch_one().await;
    tx.query("deallocate it").execute().await?;
    row?.get("QUERY PLAN")
}

/// Adds what reads all rows of a table. An index without a condition is read from one end, and
/// that is fine as long as a limit ends it.
fn judge(node: &Value, is_limited: bool, faults: &mut String) {
    let kind = node["Node Type"].as_str().unwrap_or_default();
    let table = node["Relation Name"].as_str().unwrap_or_default();
    let has_condition = ["Index Cond", "TID Cond"]
        .iter()
        .any(|name| node.get(name).is_some());
    let reads_all = match kind {
        "Seq Scan" => true,
        "Index Scan" | "Index Only Scan" => !has_condition && !is_limited,
        _ => false,
    };
    let index = node["Index Name"].as_str().unwrap_or_default();
    if reads_all && !is_small(table) && !is_few(index) {
        let _ = write!(faults, "{kind} of {table} {index}; ");
    }
    // What sorts, hashes or counts reads all that comes before a limit is reached.
    let goes_through = [
        "Limit",
        "Nested Loop",
        "Append",
        "Merge Append",
        "Result",
        "LockRows",
        "Subquery Scan",
        "Unique",
        "Group",
        "WindowAgg",
        "Incremental Sort",
    ];
    let is_limited = kind == "Limit" || (is_limited && goes_through.contains(&kind));
    for inner in node["Plans"].as_array().into_iter().flatten() {
        judge(inner, is_limited, faults);
    }
}

/// Adds each use of an index by a later column without the ones before it: then it reads all entries
/// of the columns before.
fn find_gaps(node: &Value, indexes: &Indexes, faults: &mut String) {
    if let (Some(name), Some(condition)) =
        (node["Index Name"].as_str(), node["Index Cond"].as_str())
    {
        let uses = |column: &String| {
            let mut words =
                condition.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            if column.contains('(') {
                condition.contains(column.as_str())
            } else {
                words.any(|word| word == column.trim_matches('"'))
            }
        };
        let first = indexes.get(name).and_then(|columns| columns.first());
        let table = node["Relation Name"].as_str().unwrap_or_default();
        if !first.is_some_and(uses) && !is_small(table) && !is_few(name) {
            let _ = write!(faults, "{name} by {condition}; ");
        }
    }
    for inner in node["Plans"].as_array().into_iter().flatten() {
        find_gaps(inner, indexes, faults);
    }
}

async fn explain_on_sqlite(db: &Db, sql: &str, tables: &[String]) -> Verdict {
    let is_limited = sql.contains("limit");
    let rows = db
        .query(statement(format!("explain query plan {sql}")))
        .fetch_all()
        .await?;
    let mut faults = String::new();
    for row in rows {
        let detail: String = row.get("detail")?;
        let Some(scanned) = detail.strip_prefix("SCAN ") else {
            continue;
        };
        let table = scanned.split_whitespace().next().unwrap_or_default();
        let index = scanned.split_whitespace().last().unwrap_or_default();
        let is_ordered = scanned.contains("USING") && (is_limited || is_few(index));
        let is_table = tables.iter().any(|it| it == table);
        if is_table && !is_ordered && !is_small(table) {
            let _ = write!(faults, "{detail}; ");
        }
    }
    Ok(Some(faults).filter(|faults| !faults.is_empty()))
}

/// Fills all tables of a PostgreSQL database with rows that break no unique index; checks and
/// foreign keys are dropped.
async fn fill(db: &Db) {
    let constraints = "do $$
        declare it record;
        begin
            for it in select conrelid::regclass as name, conname from pg_constraint
                      where connamespace = current_schema()::regnamespace and contype = 'f'
            loop
                execute format('alter table %s drop constraint %I', it.name, it.conname);
            end loop;
        end $$";
    db.query(constraints).execute().await.unwrap();
    let columns = "
        select table_name::text as name, column_name::text as col, data_type::text as type,
               is_nullable::text as nullable,
               (select pg_get_constraintdef(pg_constraint.oid) from pg_constraint
                where contype = 'c' and conrelid = table_name::regclass
                  and pg_get_constraintdef(pg_constraint.oid) like 'CHECK ((' || column_name || ' = ANY%'
                limit 1) as one_of
        from information_schema.columns
        where table_schema = current_schema() and table_name <> '_sqlx_migrations'
        order by table_name, ordinal_position";
    let rows = db.query(columns).fetch_all().await.unwrap();
    let mut tables: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in rows {
        let name: String = row.get("name").unwrap();
        let col: String = row.get("col").unwrap();
        let kind: String = row.get("type").unwrap();
        let one_of: Option<String> = row.get("one_of").unwrap();
        let value = match (kind.as_str(), one_of) {
            ("text", Some(check)) => {
                let quoted: Vec<&str> = check.split('\'').skip(1).step_by(2).collect();
                format!(
                    "(array['{}'])[1 + n % {}]",
                    quoted.join("','"),
                    quoted.len()
                )
            }
            ("text", None) if let Some(values) = few(&col) => {
                format!("(array{values})[1 + n % cardinality(array{values})]")
            }
            ("text", None) => "'text-' || n".to_owned(),
            ("bigint" | "integer" | "smallint", _) => "n".to_owned(),
            ("uuid", _) => "md5(n::text)::uuid".to_owned(),
            ("bytea", _) => "decode(md5(n::text), 'hex')".to_owned(),
            ("boolean", _) => "n % 2 = 0".to_owned(),
            (other, _) => panic!("{name}.{col} is of type {other}"),
        };
        let nullable = row.get::<String>("nullable").unwrap() == "YES";
        let value = if nullable {
            format!("case when n % 4 > 0 then {value} end")
        } else {
            value
        };
        tables.entry(name).or_default().push((col, value));
    }
    // The checks are of no use now, and refuse what is made up.
    let checks = "do $$
        declare it record;
        begin
            for it in select conrelid::regclass as name, conname from pg_constraint
                      where connamespace = current_schema()::regnamespace and contype = 'c'
            loop
                execute format('alter table %s drop constraint %I', it.name, it.conname);
            end loop;
        end $$";
    db.query(checks).execute().await.unwrap();
    for (name, columns) in tables {
        let (names, values): (Vec<String>, Vec<String>) = columns.into_iter().unzip();
        let rows = match name.as_str() {
            "jobs" | "deliveries" | "orders" => MANY_ROWS,
            small if SMALL.iter().any(|(it, _)| *it == small) => 10,
            _ => ROWS,
        };
        let insert = format!(
            "insert into {name} ({}) select {} from generate_series(1, {rows}) as n on conflict do nothing",
            names.join(", "),
            values.join(", ")
        );
        db.query(statement(insert)).execute().await.unwrap();
        db.query(statement(format!("analyze {name}")))
            .execute()
            .await
            .unwrap();
    }
}

/// The values of a column that has few of them, as a list of SQL. Of ten jobs one waits and one is dead.
fn few(column: &str) -> Option<&'static str> {
    Some(match column {
        "state" => "['done','done','done','ready','done','done','dead','pending','done','open']",
        "queue" => "['orders','payments','privacy','endpoints']",
        "source" => "['storefront','payment','internal']",
        "kind" | "topic" => {
            "['orders/create','orders/paid','payment_intent.succeeded','privacy/erase_again']"
        }
        "shop" => {
            "['one.example','two.example','three.example','four.example','five.example','six.example','seven.example']"
        }
        _ => return None,
    })
}

#[tokio::test]
async fn every_statement_uses_an_index() {
    let statements = statements::all();
    assert!(
        statements.len() > 400,
        "only {} were found",
        statements.len()
    );
    let backend = Backend::with_new_files().await;
    let db = process::open_database(&backend.database_url, 2)
        .await
        .unwrap();
    let (mut indexes, mut tables) = (Indexes::new(), Vec::new());
    if is_distributed() {
        indexes = indexes_of(&db).await;
        fill(&db).await;
    } else {
        let named = "select name from sqlite_master where type = 'table'";
        let rows = db.query(named).fetch_all().await.unwrap();
        tables.extend(rows.iter().map(|row| row.get::<String>("name").unwrap()));
    }
    let (mut faults, mut not_taken) = (Vec::new(), Vec::new());
    for Statement { place, sql } in &statements {
        let mut verdict = Ok(None);
        for way in as_sent(sql) {
            verdict = if is_distributed() {
                explain_on_postgres(&db, &way, &indexes).await
            } else {
                explain_on_sqlite(&db, &way, &tables).await
            };
            if verdict.is_ok() {
                break;
            }
        }
        match verdict {
            Ok(None) => {}
            Ok(Some(_)) if ALLOWED.iter().any(|allowed| is_meant(allowed, place, sql)) => {}
            Ok(Some(fault)) => faults.push(format!("{place}: {fault}\n    {}", one_line(sql))),
            Err(error) => not_taken.push(format!("{place}: {error}\n    {}", one_line(sql))),
        }
    }
    db.close().await;
    assert!(
        not_taken.is_empty(),
        "{} are not taken:\n{}",
        not_taken.len(),
        not_taken.join("\n")
    );
    assert!(
        faults.is_empty(),
        "{} read more than an index leads to. Give them an index, or say in ALLOWED why not:\n{}",
        faults.len(),
        faults.join("\n")
    );
    for allowed in &ALLOWED {
        let is_there = |it: &Statement| is_meant(allowed, &it.place, &it.sql);
        assert!(
            statements.iter().any(is_there),
            "no statement is {allowed:?}"
        );
    }
}

fn is_meant((file, part, _): &(&str, &str, &str), place: &str, sql: &str) -> bool {
    place.starts_with(file) && one_line(sql).contains(part)
}

fn one_line(sql: &str) -> String {
    let words: Vec<_> = sql.split_whitespace().collect();
    words.join(" ")
}
