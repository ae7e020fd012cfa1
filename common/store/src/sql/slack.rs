//! Clears the pages of a SQLite file of what lies in them beside the rows.
//!
//! `secure_delete` overwrites a row where it was deleted. But SQLite moves rows from page to page as
//! it keeps its trees in balance, and the part of a page that the moved rows occupied keeps their
//! bytes. So after an erasure every page is looked at, and where the free space of one is not all
//! zeros, zeros are written there. Pages are read beside the writer, and written a few at a time, so
//! that nobody waits for longer than for any other transaction, however large the file is.
//!
//! Invariant: nothing is written but zeros, and only into space that the page itself says is free,
//! read in the transaction that writes it. The layout of a page is part of SQLite's documented file
//! format. Pages are read and written through its table `sqlite_dbpage`, and so through its log.

use std::ops::Range;

use sqlx::{Row as _, SqliteConnection};

use super::{Db, Error, Result};

/// Pages that are read at a time.
const READ: i64 = 512;
/// Pages of one transaction.
const WRITTEN: usize = 64;
/// The first byte of a page that is no part of a tree is that of a page's number, which is none of
/// [`TREE`] up to here. It is a file of 128 GiB.
const MOST_PAGES: i64 = 0x0200_0000;
/// Kinds of pages of a tree: inner and leaf pages, of indexes and of tables.
const TREE: [u8; 4] = [2, 10, 5, 13];
/// The file's own header, before the first page's.
const FILE_HEADER: usize = 100;

/// Fails when the program was built without the table that this needs, which must not stay unknown.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
pub(super) async fn check(connection: &mut SqliteConnection) -> Result<()> {
    let looked = sqlx::query("select pgno from sqlite_dbpage where pgno = 1")
        .fetch_optional(&mut *connection)
        .await;
    looked.map_err(|_| {
        Error::Configuration(
            "this program was built without SQLITE_ENABLE_DBPAGE_VTAB, so nothing that is erased \
             would leave the files of a SQLite database; build it in the folder of its source, \
             whose .cargo/config.toml sets that"
                .into(),
        )
    })?;
    // With auto_vacuum a file has pages that list where other pages belong. Their first byte may be
    // the same as that of a page of a tree, so such a file must not be cleared. Files that Waybill
    // makes have no auto_vacuum.
    let auto_vacuum = sqlx::raw_sql("pragma auto_vacuum")
        .fetch_one(connection)
        .await?;
    if auto_vacuum.try_get::<i64, _>(0)? == 0 {
        return Ok(());
    }
    Err(Error::Configuration(
        "this SQLite file has auto_vacuum, with which its pages cannot be cleared of what is erased; \
         run `pragma auto_vacuum = none; vacuum;` on it in the sqlite3 shell"
            .into(),
    ))
}

/// Looks at every page, with `connection`, and clears those that need it.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
pub(super) async fn clear(db: &Db, connection: &mut SqliteConnection) -> Result<()> {
    let row = sqlx::raw_sql("pragma page_count")
        .fetch_one(&mut *connection)
        .await?;
    let pages = row.try_get::<i64, _>(0)?.min(MOST_PAGES);
    let mut first = 1;
    while first <= pages {
        let last = pages.min(first + READ - 1);
        let found = uncleared(connection, first, last).await?;
        for numbers in found.chunks(WRITTEN) {
            clear_pages(db, numbers).await?;
        }
        // What was written stays in the log no longer than what others write.
        sqlx::raw_sql("pragma wal_checkpoint(passive)")
            .execute(&mut *connection)
            .await?;
        first = last + 1;
    }
    Ok(())
}

/// The numbers of those pages that are not clear.
#[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
async fn uncleared(connection: &mut SqliteConnection, first: i64, last: i64) -> Result<Vec<i64>> {
    let rows = sqlx::query(
        "with recursive wanted (number) as (
             select $1 union all select number + 1 from wanted where number < $2
         )
         select pgno, data from wanted cross join sqlite_dbpage where pgno = number",
    )
    .bind(first)
    .bind(last)
    .fetch_all(connection)
    .await?;
    let mut found = Vec::new();
    for row in &rows {
        let number: i64 = row.try_get(0)?;
        let page: &[u8] = row.try_get(1)?;
        if !is_clear(number, page) {
            found.push(number);
        }
    }
    Ok(found)
}

async fn clear_pages(db: &Db, numbers: &[i64]) -> Result<()> {
    let mut tx = db.begin().await?;
    for number in numbers {
        let row = tx
            .query("select data from sqlite_dbpage where pgno = $1")
            .bind(*number)
            .fetch_optional()
            .await?;
        let Some(row) = row else { continue };
        let mut page: Vec<u8> = row.get("data")?;
        if is_clear(*number, &page) {
            continue;
        }
        for free in free_space(*number, &page) {
            page[free].fill(0);
        }
        tx.query("update sqlite_dbpage set data = $1 where pgno = $2")
            .bind(page)
            .bind(*number)
            .execute()
            .await?;
    }
    tx.commit().await
}

fn is_clear(number: i64, page: &[u8]) -> bool {
    let mut free = free_space(number, page).into_iter();
    free.all(|free| page[free].iter().all(|byte| *byte == 0))
}

/// Where nothing lies: between the list of the page's cells and the first cell, and in the blocks
/// between cells behind the four bytes by which they are chained. Nowhere when the page is none of
/// a tree, or is not what it should be.
fn free_space(number: i64, page: &[u8]) -> Vec<Range<usize>> {
    free_space_of(number, page).unwrap_or_default()
}

fn free_space_of(number: i64, page: &[u8]) -> Option<Vec<Range<usize>>> {
    let header = if number == 1 { FILE_HEADER } else { 0 };
    let kind = *page.get(header)?;
    if !TREE.contains(&kind) {
        return None;
    }
    let is_inner = kind == 2 || kind == 5;
    let list = header + if is_inner { 12 } else { 8 };
    let begin = list + 2 * number_at(page, header + 3)?;
    let cells = match number_at(page, header + 5)? {
        0 => 65536,
        offset => offset,
    };
    if begin > cells || cells > page.len() {
        return None;
    }
    let mut free: Vec<_> = std::iter::once(begin..cells).collect();
    let mut block = number_at(page, header + 1)?;
    let mut past = cells;
    while block != 0 {
        let next = number_at(page, block)?;
        let end = block + number_at(page, block + 2)?;
        if block < past || end < block + 4 || end > page.len() {
            return None;
        }
        free.push(block + 4..end);
        (past, block) = (end, next);
    }
    Some(free)
}

/// A number of two bytes.
fn number_at(page: &[u8], at: usize) -> Option<usize> {
    let bytes = page.get(at..at + 2)?;
    Some(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
    async fn a_file_with_auto_vacuum_is_refused() {
        use sqlx::Connection as _;

        for (mode, is_taken) in [("none", true), ("full", false), ("incremental", false)] {
            let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
            let make = format!("pragma auto_vacuum = {mode}; create table things (id integer)");
            let make = sqlx::AssertSqlSafe(make);
            sqlx::raw_sql(make).execute(&mut connection).await.unwrap();
            let checked = check(&mut connection).await;
            assert_eq!(checked.is_ok(), is_taken, "{mode}");
            let refusal = checked.err().map(|error| error.to_string());
            assert!(refusal.is_none_or(|text| text.contains("auto_vacuum")));
        }
    }

    /// A leaf page of 64 bytes: a cell at 50, a block of 10 bytes at 40, the cells begin at 40.
    fn leaf() -> Vec<u8> {
        let mut page = vec![0xAA; 64];
        page[..8].copy_from_slice(&[13, 0, 40, 0, 1, 0, 40, 0]);
        page[8..10].copy_from_slice(&[0, 50]);
        page[40..44].copy_from_slice(&[0, 0, 0, 10]);
        page
    }

    #[test]
    fn free_space_lies_between_the_list_and_the_cells_and_in_blocks() {
        let page = leaf();
        assert_eq!(free_space(2, &page), [10..40, 44..50]);
        assert!(!is_clear(2, &page));
    }

    #[test]
    fn a_page_that_is_none_of_a_tree_or_contradicts_itself_has_none() {
        for (at, byte) in [
            (0, 0),
            (0, 1),
            (0, 6),
            (6, 70),
            (6, 9),
            (2, 62),
            (43, 3),
            (43, 30),
        ] {
            let mut page = leaf();
            page[at] = byte;
            assert_eq!(free_space(2, &page), [], "byte {at} is {byte}");
        }
        assert_eq!(free_space(2, &[]), []);
        assert_eq!(free_space(1, &leaf()), []);
    }
}
