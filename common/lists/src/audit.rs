//! The audit: who did what. It has no personal data.

use store::audit::{self, AuditEntry};
use store::sql::Db;

use crate::shown::Cell;
use crate::{Column, Error, Extent, List, Page, Wanted, column, lesser, sentence};

#[derive(Clone, Copy, Debug, Default)]
pub struct Audit;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct AuditFilter {
    /// Only entries about the request, job, licence or other object with this id, the oldest first
    #[arg(long, value_name = "ID")]
    pub object: Option<String>,
}

impl List for Audit {
    type Filter = AuditFilter;
    type Row = AuditEntry;

    const PAGE: &'static str = "/audit";
    const COMMAND: &'static str = "audit list";
    const TITLE: &'static str = "Audit";
    const ABOUT: &'static str = "What was done to people's data, and what operators have changed, the newest first. \
                                 Whether somebody has altered it says: waybill audit verify";
    const EMPTY: &'static str = "Nothing was done yet.";
    const EXTENT: Extent = Extent::Pages;
    const COLUMNS: &'static [Column<AuditEntry>] = &[
        column("Number", |it| Cell::Number(it.number)),
        column("At", |it| Cell::time(it.at)),
        column("Who", |it| Cell::text(it.actor.as_str())),
        column("What", |it| Cell::text(it.action.as_str())),
        lesser("Shop", |it| Cell::maybe(it.shop.as_deref())),
        column("About", |it| Cell::code(it.object_id.as_str())),
        sentence("Details", |it| Cell::text(it.details.to_string())),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &AuditFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<AuditEntry>, Error> {
        let after = wanted.cursor(|text| text.parse().ok())?;
        let object = filter.object.as_deref();
        let entries = match object {
            Some(_) => audit::list(db, object, after.unwrap_or(0), wanted.rows()).await?,
            None => audit::before(db, after.unwrap_or(i64::MAX), wanted.rows()).await?,
        };
        let mut page = Page::full(entries, wanted, |it| it.number.to_string());
        page.note = object.map(|_| "Those of one object: the oldest first.".to_owned());
        Ok(page)
    }
}
