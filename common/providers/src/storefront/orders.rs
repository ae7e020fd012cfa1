//! The orders that changed at a storefront.

use domain::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Credential, Storefront};
use crate::CallFailure;
use crate::changes::{NotNamed, PAGE, Page, Period, next_of_link, with_query};

/// The name of the operation in the metrics of calls.
const OPERATION: &str = "changed orders";
const SECOND: i64 = 1000;

#[derive(Deserialize)]
struct Orders {
    orders: Vec<Box<RawValue>>,
}

impl Storefront {
    /// A page of the orders of a shop that changed in this period, whatever became of them. `page` is what the page before
    /// named.
    pub async fn changed_orders(
        &self,
        shop: &str,
        period: Period,
        page: Option<&str>,
    ) -> Result<Page, CallFailure> {
        match self.credential {
            Credential::Header(_) => self.by_links(shop, period, page).await,
            Credential::Basic => self.by_time(shop, period, page).await,
        }
    }

    /// Resource Order of the provider's REST reference; each page names the next one in the header `Link`.
    async fn by_links(
        &self,
        shop: &str,
        period: Period,
        page: Option<&str>,
    ) -> Result<Page, CallFailure> {
        let mut query = vec![("limit", PAGE.to_string())];
        match page {
            Some(page) => query.push(("page_info", page.to_owned())),
            None => query.extend([
                // Without it those that are closed are left out.
                ("status", "any".to_owned()),
                ("order", "updated_at asc".to_owned()),
                ("updated_at_min", period.from.to_string()),
                ("updated_at_max", period.until.to_string()),
            ]),
        }
        let request = self
            .provider
            .client
            .get(with_query(&self.url("orders.json"), &query));
        let request = self.headers(request, Some(shop));
        let (Orders { orders }, headers) = self.provider.page(OPERATION, request).await?;
        let next = next_of_link(&headers).map_err(|NotNamed| self.provider.unnamed_page())?;
        Ok(Page::new(orders, next, &headers))
    }

    /// Orders of the REST API of `WooCommerce`. Its pages are counted, so an order that changes meanwhile would move others
    /// to a page that was read. So the next page is asked for by the time of the last order of this one.
    async fn by_time(
        &self,
        shop: &str,
        period: Period,
        page: Option<&str>,
    ) -> Result<Page, CallFailure> {
        let (from, number) = page.and_then(place).unwrap_or((period.from, 1));
        // The API leaves out what changed at these times themselves.
        let after = Timestamp(from.0 - SECOND);
        let before = Timestamp(period.until.0 + SECOND);
        let query = [
            ("modified_after", without_zone(after)),
            ("modified_before", without_zone(before)),
            ("dates_are_gmt", "true".to_owned()),
            ("orderby", "modified".to_owned()),
            ("order", "asc".to_owned()),
            ("per_page", PAGE.to_string()),
            ("page", number.to_string()),
        ];
        let request = self
            .provider
            .client
            .get(with_query(&self.url("orders"), &query));
        let request = self.headers(request, Some(shop));
        let (orders, headers) = self.provider.page(OPERATION, request).await?;
        let orders: Vec<Box<RawValue>> = orders;
        let last = orders.last().filter(|_| orders.len() >= PAGE);
        let next = match last.map(|order| modified(order)) {
            None => None,
            Some(None) => return Err(self.provider.unnamed_page()),
            Some(Some(last)) if last > from => Some(format!("{} 1", last.0)),
            Some(Some(_)) => Some(format!("{} {}", from.0, number + 1)),
        };
        Ok(Page::new(orders, next, &headers))
    }
}

/// A time in GMT. One with a zone would be turned into the shop's own time, and then compared with times in GMT.
fn without_zone(at: Timestamp) -> String {
    let text = at.to_string();
    text.split('.').next().unwrap_or_default().to_owned()
}

/// Reads from when on a page is asked for, and which one from there it is.
fn place(page: &str) -> Option<(Timestamp, u32)> {
    let (from, number) = page.split_once(' ')?;
    Some((Timestamp(from.parse().ok()?), number.parse().ok()?))
}

fn modified(order: &RawValue) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Modified {
        date_modified_gmt: String,
    }
    let it: Modified = serde_json::from_str(order.get()).ok()?;
    // It has no zone of its own.
    format!("{}Z", it.date_modified_gmt).parse().ok()
}
