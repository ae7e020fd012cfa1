//! The events that the payment provider has made (its API reference, List all events). They have the form in which its
//! webhooks bring them, and are listed for 30 days, the newest first.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Payment;
use super::list::List;
use crate::CallFailure;
use crate::changes::{PAGE, Page, Period, with_query};

/// The name of the operation in the metrics of calls.
const OPERATION: &str = "events";

#[derive(Deserialize)]
struct Identified {
    id: String,
}

impl Payment {
    /// A page of the events of this period, of all types, because more are worked on than the API lets a list name.
    /// `page` is what the page before named.
    pub async fn events(&self, period: Period, page: Option<&str>) -> Result<Page, CallFailure> {
        let mut query = vec![
            ("limit", PAGE.to_string()),
            ("created[gte]", period.from.unix_seconds().to_string()),
            ("created[lte]", period.until.unix_seconds().to_string()),
        ];
        query.extend(page.map(|page| ("starting_after", page.to_owned())));
        let url = with_query(&format!("{}/v1/events", self.provider.url), &query);
        let request = self
            .provider
            .client
            .get(url)
            .bearer_auth(&self.provider.token);
        let page = self.provider.page(OPERATION, self.about(request)).await?;
        let (List { data, has_more }, headers): (List<Box<RawValue>>, _) = page;
        let last = data.last().filter(|_| has_more);
        let last = last.map(|event| serde_json::from_str::<Identified>(event.get()));
        let next = match last.transpose() {
            Ok(last) if last.is_some() || !has_more => last.map(|it| it.id),
            Ok(_) | Err(_) => return Err(self.provider.unnamed_page()),
        };
        Ok(Page::new(data, next, &headers))
    }
}
