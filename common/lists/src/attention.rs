//! The conditions that need a person and hold now.

use domain::attention::State;
use store::attention::{self, Attention};
use store::sql::Db;

use crate::shown::Cell;
use crate::{Any, Column, Error, Extent, List, Page, Wanted, column, sentence};

#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions;

impl List for Conditions {
    type Filter = Any;
    type Row = Attention;

    const PAGE: &'static str = "/attention";
    const COMMAND: &'static str = "attention list";
    const TITLE: &'static str = "Conditions";
    const ABOUT: &'static str = "What holds now of that of which operators are notified: once when it begins and once when it is over, as the event \
                                 operator.attention, and by mail if OPERATORS_MAIL is set.";
    const EMPTY: &'static str = "Nothing needs you.";
    const EXTENT: Extent = Extent::Whole;
    const COLUMNS: &'static [Column<Attention>] = &[
        column("Condition", |it| {
            let row = it.condition.row();
            Cell::link(it.condition.into_str(), row.page.to_owned())
        }),
        column("About", |it| Cell::text(it.about.as_str())),
        column("Since", |it| Cell::age(it.since)),
        column("Knows", |it| Cell::maybe(it.acknowledged_by.as_deref())),
        sentence("What", |it| Cell::text(it.condition.summary(&it.about))),
        column("Command", |it| Cell::code(it.condition.row().command)),
    ];

    async fn page(
        &self,
        db: &Db,
        _filter: &Any,
        _wanted: Wanted<'_>,
    ) -> Result<Page<Attention>, Error> {
        let mut all = attention::all(db).await?;
        all.retain(|it| it.state == State::Begun);
        Ok(Page::whole(all))
    }
}
