//! Opens a checkout session, which is the provider's page on which a buyer pays.

use serde::Deserialize;

use super::Payment;
use crate::CallFailure;
use domain::money::{Currency, Money};

/// The currencies in which a buyer can pay (COMMERCE_002).
pub const CURRENCIES: [&str; 4] = ["USD", "EUR", "GBP", "MXN"];

/// The longest idempotency key, in characters.
const LONGEST_KEY: usize = 255;

/// What the buyer is to pay for, once, and where the buyer goes afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// The items, each with its quantity.
    pub items: Vec<(Item, i64)>,
    pub success_url: String,
    pub cancel_url: String,
    /// The merchant's own name for the session.
    pub client_reference_id: Option<String>,
    /// The agreement. The events of the session and of its payment name it.
    pub pact_id: String,
    pub customer_email: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A price that the provider knows, `price_..`.
    Known(String),
    /// An item with the price of one piece.
    Priced { name: String, price: Money },
}

/// A session that was opened, with its page.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CreatedSession {
    /// The session's id, `cs_..`.
    pub id: String,
    pub url: String,
    /// None since version 2022-08-01 of the API, in which the intent is made when the buyer pays.
    pub payment_intent: Option<String>,
    /// In Unix seconds.
    pub expires_at: Option<i64>,
}

#[derive(Deserialize)]
struct SessionObject {
    #[serde(flatten)]
    created: CreatedSession,
    currency: Option<String>,
}

impl Payment {
    /// Opens a session. Requests with the same `key` always get the same session.
    pub async fn checkout(
        &self,
        session: &NewSession,
        key: &str,
    ) -> Result<CreatedSession, CallFailure> {
        session.check()?;
        if !(1..=LONGEST_KEY).contains(&key.len()) || !key.bytes().all(|it| it.is_ascii_graphic()) {
            let what = "an idempotency key is up to 255 visible ASCII characters";
            return Err(self.provider.refused(what.to_owned()));
        }
        let form = session.form();
        let form: Vec<(&str, &str)> = form
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let call = || async {
            let answer = self.ask::<SessionObject>("checkout/sessions", &form, key);
            let answer = answer.await?;
            answer.map_err(|refusal| refusal.failure(&self.provider))
        };
        let opened = self.provider.patiently("checkout", call).await?;
        // Only the provider knows the currency of a price that it keeps, so it is checked here.
        // Nobody gets to see the page of a refused session.
        match opened.currency.as_deref().map(Currency::parse) {
            Some(currency) if !currency.is_some_and(is_supported) => Err(unsupported()),
            _ => Ok(opened.created),
        }
    }
}

impl NewSession {
    /// Checks everything for which the provider need not be asked.
    pub fn check(&self) -> Result<(), CallFailure> {
        let mut known: Option<Currency> = None;
        for (item, quantity) in &self.items {
            let each = match item {
                Item::Known(_) => 1,
                Item::Priced { price, .. } => price.minor,
            };
            if each <= 0 || *quantity <= 0 {
                let what = "price and quantity must be positive";
                return Err(CallFailure::InvalidAmount(what.to_owned()));
            }
            let Item::Priced { price, .. } = item else {
                continue;
            };
            if !is_supported(price.currency) {
                return Err(unsupported());
            }
            if *known.get_or_insert(price.currency) != price.currency {
                let what = "all that is paid at once must have the same one";
                return Err(CallFailure::UnsupportedCurrency(what.to_owned()));
            }
        }
        Ok(())
    }

    fn form(&self) -> Vec<(String, String)> {
        let mut form = Vec::new();
        let mut put = |name: &str, value: &str| form.push((name.to_owned(), value.to_owned()));
        put("mode", "payment");
        put("success_url", &self.success_url);
        put("cancel_url", &self.cancel_url);
        put("metadata[pact_id]", &self.pact_id);
        put("payment_intent_data[metadata][pact_id]", &self.pact_id);
        if let Some(id) = &self.client_reference_id {
            put("client_reference_id", id);
        }
        if let Some(email) = &self.customer_email {
            put("customer_email", email);
        }
        for (nth, (item, quantity)) in self.items.iter().enumerate() {
            let line = format!("line_items[{nth}]");
            put(&format!("{line}[quantity]"), &quantity.to_string());
            match item {
                Item::Known(id) => put(&format!("{line}[price]"), id),
                Item::Priced { name, price } => {
                    let data = format!("{line}[price_data]");
                    let currency = price.currency.as_str().to_ascii_lowercase();
                    put(&format!("{data}[currency]"), &currency);
                    put(&format!("{data}[unit_amount]"), &price.minor.to_string());
                    put(&format!("{data}[product_data][name]"), name);
                }
            }
        }
        form
    }
}

fn is_supported(currency: Currency) -> bool {
    CURRENCIES.contains(&currency.as_str())
}

fn unsupported() -> CallFailure {
    CallFailure::UnsupportedCurrency(format!("it must be one of {}", CURRENCIES.join(", ")))
}
