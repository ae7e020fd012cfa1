//! Lists of the payment provider's API (its reference, Pagination).

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Payment;
use crate::CallFailure;
use crate::changes::{PAGE, with_query};

#[derive(Deserialize)]
pub struct List<T> {
    pub data: Vec<T>,
    #[serde(default)]
    pub has_more: bool,
}

impl Payment {
    /// All pages of a list.
    pub(super) async fn all<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        list: &str,
        query: Vec<(&str, String)>,
        id: impl Fn(&T) -> String,
    ) -> Result<Vec<T>, CallFailure> {
        let mut all: Vec<T> = Vec::new();
        loop {
            let mut query = query.clone();
            query.push(("limit", PAGE.to_string()));
            query.extend(all.last().map(|last| ("starting_after", id(last))));
            let url = with_query(&format!("{}/v1/{list}", self.provider.url), &query);
            let request = self.provider.client.get(url);
            let request = self.about(request.bearer_auth(&self.provider.token));
            let (page, _) = self.provider.page(operation, request).await?;
            let List { data, has_more } = page;
            let is_empty = data.is_empty();
            all.extend(data);
            if !has_more || is_empty {
                return Ok(all);
            }
        }
    }
}
