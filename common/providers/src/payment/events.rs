//! The events that the payment provider has made (its API reference, List all events). They have the form in which its
//! webhooks bring them, and are listed for 30 days, the newest first.

use domain::job::Kind;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Payment;
use crate::CallFailure;
use crate::changes::{PAGE, Page, Period, with_query};

/// The name of the operation in the metrics of calls.
const OPERATION: &str = "events";
/// The API takes so many types.
const MOST_TYPES: usize = 20;

#[derive(Deserialize)]
struct List {
    data: Vec<Box<RawValue>>,
    #[serde(default)]
    has_more: bool,
}

#[derive(Deserialize)]
struct Identified {
    id: String,
}

impl Payment {
    /// A page of the events of this period whose types something is done with. `page` is what the page before named.
    pub async fn events(&self, period: Period, page: Option<&str>) -> Result<Page, CallFailure> {
        let mut query = vec![
            ("limit", PAGE.to_string()),
            ("created[gte]", period.from.unix_seconds().to_string()),
            ("created[lte]", period.until.unix_seconds().to_string()),
        ];
        let types = Kind::all().iter().filter_map(|kind| match kind {
            Kind::Payment(of) => Some(("types[]", of.into_str().to_owned())),
            _ => None,
        });
        let types: Vec<_> = types.collect();
        // Without any the API lists events of all types.
        if types.len() <= MOST_TYPES {
            query.extend(types);
        }
        query.extend(page.map(|page| ("starting_after", page.to_owned())));
        let url = with_query(&format!("{}/v1/events", self.provider.url), &query);
        let request = self
            .provider
            .client
            .get(url)
            .bearer_auth(&self.provider.token);
        let ask = self.provider.send(self.about(request));
        let (List { data, has_more }, headers) = self.provider.page(OPERATION, ask).await?;
        let last = data.last().filter(|_| has_more);
        let last = last.and_then(|event| serde_json::from_str::<Identified>(event.get()).ok());
        Ok(Page::new(data, last.map(|it| it.id), &headers))
    }
}
