//! Lists of orders: all, those that wait for a decision, and bodies that came again.

use store::held::{self, Held, Reason};
use store::orders::list::{self, Cursor, ListedOrder, STATES};
use store::orders::repeated::{self, Repeated};
use store::sql::Db;

use crate::age::{self, Moment};
use crate::shown::{self, Cell};
use crate::{Any, Column, Error, Extent, List, Page, Wanted, column, lesser, sentence, words};

#[derive(Clone, Copy, Debug, Default)]
pub struct Orders;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct OrderFilter {
    /// Only orders of this shop domain
    #[arg(long, value_parser = words::shop)]
    pub shop: Option<String>,
    /// Only orders of this name, such as '#1007'; the # may be left out
    #[arg(long)]
    pub name: Option<String>,
    /// Only orders whose fulfilment is in this state; none: nothing was asked yet
    #[arg(long, value_parser = STATES)]
    pub state: Option<String>,
    /// Only orders with this `financial_status`, `paid` for example. Of this and the other
    /// statuses, none means that there is none
    #[arg(long, value_name = "STATUS", value_parser = words::financial_status(), hide_possible_values = true)]
    pub financial_status: Option<String>,
    /// Only orders whose payments come to this `payment_status`
    #[arg(long, value_name = "STATUS", value_parser = words::financial_status(), hide_possible_values = true)]
    pub payment_status: Option<String>,
    /// Only orders with this `fulfillment_status` of the storefront
    #[arg(long, value_name = "STATUS", value_parser = words::fulfillment_status(), hide_possible_values = true)]
    pub fulfillment_status: Option<String>,
    /// Only orders that were ordered then or later: an age like 2h, a time like
    /// 2027-01-31T12:00:00Z, or a day, which means its beginning
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    pub created_after: Option<Moment>,
    /// Only orders that changed then or later
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    pub updated_after: Option<Moment>,
}

impl List for Orders {
    type Filter = OrderFilter;
    type Row = ListedOrder;

    const PAGE: &'static str = "/orders";
    const COMMAND: &'static str = "orders list";
    const TITLE: &'static str = "Orders";
    const ABOUT: &'static str = "The newest first.";
    const EMPTY: &'static str = "No orders.";
    const EXTENT: Extent = Extent::Pages;
    const COLUMNS: &'static [Column<ListedOrder>] = &[
        column("Ordered", |it| Cell::age(it.listed_at)),
        column("Name", |it| Cell::maybe(it.name.as_deref())),
        column("Order", |it| {
            Cell::link(it.order_id.as_str(), shown::order(&it.shop, &it.order_id))
        }),
        column("Total", |it| {
            shown::amount(it.total_price.as_deref(), it.currency.as_deref())
        }),
        column("Paid", |it| {
            shown::maybe_state(it.financial_status.as_deref())
        }),
        column("Fulfilment", |it| {
            let fulfillment = it.fulfillment.as_ref().map(|it| it.state.as_str());
            shown::maybe_state(it.cancelled_at.map_or(fulfillment, |_| Some("cancelled")))
        }),
        column("Shop", |it| Cell::text(it.shop.as_str())),
        lesser("Changed", |it| Cell::time(it.updated_at)),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &OrderFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<ListedOrder>, Error> {
        let filter = filter.clone();
        let filter = list::Filter {
            shops: filter.shop.map(|shop| vec![shop]),
            name: filter.name,
            state: filter.state,
            financial_status: filter.financial_status,
            payment_status: filter.payment_status,
            fulfillment_status: filter.fulfillment_status,
            created_after: filter.created_after.map(|it| it.at(wanted.now)),
            updated_after: filter.updated_after.map(|it| it.at(wanted.now)),
        };
        let after: Option<Cursor> = wanted.cursor(|text| text.parse().ok())?;
        let page = list::page(db, &filter, after.as_ref(), wanted.limit).await?;
        Ok(Page {
            items: page.orders,
            next: page.next.map(|it| it.to_string()),
            note: None,
        })
    }
}

/// Finding them reads many orders.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeldOrders;

impl List for HeldOrders {
    type Filter = Any;
    type Row = Held;

    const PAGE: &'static str = "/held";
    const COMMAND: &'static str = "orders held";
    const TITLE: &'static str = "Orders to decide";
    const ABOUT: &'static str = "The orders, payments and refunds that you have to decide about, and what to do about each.";
    const EMPTY: &'static str = "Nothing waits for a decision.";
    const EXTENT: Extent = Extent::First(100);
    const COLUMNS: &'static [Column<Held>] = &[
        column("Changed", |it| Cell::time(it.updated_at)),
        column("Order", |it| {
            Cell::link(it.order_id.as_str(), shown::order(&it.shop, &it.order_id))
        }),
        column("Shop", |it| Cell::text(it.shop.as_str())),
        column("Amount", |it| {
            shown::amount(it.amount.as_deref(), it.currency.as_deref())
        }),
        column("About", |it| Cell::maybe(it.about.as_deref())),
        column("Why", |it| Cell::text(it.reason.into_str())),
        sentence("What to do", |it| Cell::text(it.reason.mend())),
    ];

    async fn page(&self, db: &Db, _: &Any, wanted: Wanted<'_>) -> Result<Page<Held>, Error> {
        let mut page = Page::whole(held::list(db, wanted.rows()).await?);
        let of = |reason: &Reason| page.items.iter().filter(|it| it.reason == *reason).count();
        let is_cut = Reason::ALL.iter().any(|reason| of(reason) >= wanted.limit);
        let most = wanted.limit;
        page.note = is_cut
            .then(|| format!("At most {most} are shown for each reason: give a larger `limit`."));
        Ok(page)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RepeatedBodies;

impl List for RepeatedBodies {
    type Filter = Any;
    type Row = Repeated;

    const PAGE: &'static str = "/repeated";
    const COMMAND: &'static str = "orders repeated";
    const TITLE: &'static str = "Bodies whose topic did not count";
    const ABOUT: &'static str = "Bodies that came again under another topic, or whose topic the storefront did not \
                                 confirm, the newest first. The signature covers the body and not the topic, so \
                                 somebody may have captured them and sent them again.";
    const EMPTY: &'static str = "Every body came under one topic.";
    const EXTENT: Extent = Extent::First(100);
    const COLUMNS: &'static [Column<Repeated>] = &[
        column("First came", |it| Cell::time(it.created_at)),
        column("As", |it| Cell::text(it.topic.as_str())),
        column("Repeats", |it| Cell::Number(it.repeats)),
        column("Refuted", |it| Cell::Number(it.refuted)),
        column("Shop", |it| Cell::text(it.shop.as_str())),
        column("Order", |it| {
            Cell::link(it.order_id.to_string(), shown::order(&it.shop, it.order_id))
        }),
    ];

    async fn page(&self, db: &Db, _: &Any, wanted: Wanted<'_>) -> Result<Page<Repeated>, Error> {
        Ok(Page::first(
            repeated::list(db, wanted.rows()).await?,
            wanted,
        ))
    }
}
