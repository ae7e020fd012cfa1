//! Opening a checkout session: the provider's page on which a buyer pays.

use serde::Deserialize;

use super::Payment;
use crate::CallFailure;
use domain::money::{Currency, Money};

/// In which one can pay (COMMERCE_002).
pub const CURRENCIES: [&str; 4] = ["USD", "EUR", "GBP", "MXN"];

/// Characters of an idempotency key.
const LONGEST_KEY: usize = 255;

/// What is to be paid, once, and where the buyer goes then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// Each with how many are bought of it.
    pub items: Vec<(Item, i64)>,
    pub success_url: String,
    pub cancel_url: String,
    /// The merchant's own name for it.
    pub client_reference_id: Option<String>,
    /// The agreement: events of the session and of its payment name it.
    pub pact_id: String,
    pub customer_email: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A price that the provider knows, `price_..`.
    Known(String),
    /// The price of one.
    Priced { name: String, price: Money },
}

/// A page to pay on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CreatedSession {
    /// `cs_..`
    pub id: String,
    pub url: String,
    /// Since 2022-08-01 it is made when the buyer pays.
    pub payment_intent: Option<String>,
    /// Unix seconds.
    pub expires_at: Option<i64>,
}

#[derive(Deserialize)]
struct SessionObject {
    #[serde(flatten)]
    created: CreatedSession,
    currency: Option<String>,
}

impl Payment {
    /// Opens a session; as often as it is asked with one `key`, it is the same one.
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
        // Of a price that it knows the provider alone can say this. Nobody gets to see the page.
        match opened.currency.as_deref().map(Currency::parse) {
            Some(currency) if !currency.is_some_and(is_supported) => Err(unsupported()),
            _ => Ok(opened.created),
        }
    }
}

impl NewSession {
    /// What the provider need not be asked for.
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
