//! The body of `POST /api/commerce/checkout` and what it asks for, once it is checked. Each
//! field has two spellings, `line_items` and `lineItems`, and is given in one of them.

use domain::api_key::{self, Shops};
use domain::money::Currency;
use domain::origins::Origins;
use providers::payment::CURRENCIES;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::orders::CHECKOUT;

use super::problem::{CheckoutError, CheckoutProblem};

const MOST_ITEMS: usize = 100;
const MOST_UNITS: i64 = 999;
/// As the payment provider's.
const MOST_MINOR: i64 = 99_999_999;
const LONGEST_NAME: usize = 250;
const LONGEST_EMAIL: usize = 254;
const LONGEST_REFERENCE: usize = 200;
const LONGEST_PRICE_ID: usize = 255;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckoutRequest {
    /// 1 to 100.
    #[serde(alias = "lineItems")]
    pub line_items: Option<Vec<LineItem>>,
    /// Where the buyer goes who has paid.
    #[serde(alias = "returnUrl")]
    pub return_url: Option<String>,
    /// Where the buyer goes who has not. Without it: `return_url`.
    #[serde(alias = "cancelUrl")]
    pub cancel_url: Option<String>,
    /// Passed on to the payment provider, and not stored.
    #[serde(alias = "customerEmail")]
    pub customer_email: Option<String>,
    /// The caller's own name for it.
    #[serde(alias = "clientReferenceId", alias = "reference")]
    pub client_reference_id: Option<String>,
    /// The shop whose variants are meant, where there are several shops.
    pub shop: Option<String>,
}

/// A variant of the storefront, a price of the payment provider, or a name with an amount. Other
/// fields are passed over, and beside a variant these are too: callers hand on the items of their
/// carts as they are, with the prices that they show.
#[derive(Deserialize)]
pub struct LineItem {
    #[serde(alias = "variantId")]
    pub variant_id: Option<VariantId>,
    /// `price_..`
    pub price: Option<Value>,
    pub name: Option<Value>,
    /// Minor units, of one.
    pub amount: Option<Value>,
    pub currency: Option<Value>,
    pub quantity: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub enum VariantId {
    Text(String),
    Number(i64),
}

/// What is asked for. Two requests that ask for the same are the same as JSON.
#[derive(Clone, Serialize)]
pub struct Wish {
    pub items: Vec<Wanted>,
    pub success_url: String,
    pub cancel_url: String,
    pub customer_email: Option<String>,
    pub client_reference_id: Option<String>,
    pub shop: Option<String>,
}

#[derive(Clone, Serialize)]
pub struct Wanted {
    pub what: Article,
    pub quantity: i64,
}

#[derive(Clone, Serialize)]
pub enum Article {
    Variant(i64),
    Known(String),
    Named {
        name: String,
        amount: i64,
        currency: Currency,
    },
}

impl CheckoutRequest {
    /// `opened` are the shops of the API key, `served` those that we know of, if any.
    pub fn check(
        self,
        origins: &Origins,
        opened: &Shops,
        served: &[String],
    ) -> Result<Wish, CheckoutError> {
        let items = self.line_items.ok_or(CheckoutProblem::Items)?;
        if !(1..=MOST_ITEMS).contains(&items.len()) {
            return Err(CheckoutProblem::Items.into());
        }
        let wanted = |(nth, item): (usize, LineItem)| {
            item.check().map_err(|what| CheckoutError {
                item: Some(nth),
                what,
            })
        };
        let items: Vec<Wanted> = items
            .into_iter()
            .enumerate()
            .map(wanted)
            .collect::<Result<_, _>>()?;
        let return_url = self.return_url.ok_or(CheckoutProblem::NoReturnUrl)?;
        let success_url = origins
            .check(&return_url)
            .map_err(CheckoutProblem::ReturnUrl)?;
        let cancel_url = match &self.cancel_url {
            Some(url) => origins.check(url).map_err(CheckoutProblem::CancelUrl)?,
            None => success_url.clone(),
        };
        let email = self.customer_email;
        if email.as_deref().is_some_and(|email| !is_email(email)) {
            return Err(CheckoutProblem::Email.into());
        }
        let reference = self.client_reference_id;
        if reference
            .as_deref()
            .is_some_and(|it| !is_text(it, LONGEST_REFERENCE))
        {
            return Err(CheckoutProblem::Reference.into());
        }
        let sells_variants = items
            .iter()
            .any(|item| matches!(item.what, Article::Variant(_)));
        let shop = match &self.shop {
            Some(shop) => Some(named_shop(shop, opened, served)?),
            None => only_shop(opened, served),
        };
        if sells_variants && shop.is_none() && opened.0.is_some() {
            return Err(CheckoutProblem::Shop.into());
        }
        Ok(Wish {
            items,
            success_url,
            cancel_url,
            customer_email: email,
            client_reference_id: reference,
            shop,
        })
    }
}

impl LineItem {
    fn check(self) -> Result<Wanted, CheckoutProblem> {
        let quantity = self.quantity.as_ref().and_then(Value::as_i64);
        let quantity = quantity.filter(|units| (1..=MOST_UNITS).contains(units));
        let has_price = self.name.is_some() || self.amount.is_some() || self.currency.is_some();
        let what = match (self.variant_id, self.price, has_price) {
            (Some(id), ..) => Article::Variant(id.number().ok_or(CheckoutProblem::VariantId)?),
            (None, Some(id), false) => Article::Known(price_id(&id)?),
            (None, None, true) => named(
                self.name.as_ref(),
                self.amount.as_ref(),
                self.currency.as_ref(),
            )?,
            _ => return Err(CheckoutProblem::Article),
        };
        Ok(Wanted {
            what,
            quantity: quantity.ok_or(CheckoutProblem::Quantity)?,
        })
    }
}

impl VariantId {
    /// The number, which other APIs of the storefront put at the end of a path.
    fn number(&self) -> Option<i64> {
        let number = match self {
            VariantId::Number(number) => *number,
            VariantId::Text(text) => {
                let digits = match text.strip_prefix("gid://") {
                    Some(path) => path.split_once("/ProductVariant/")?.1,
                    None => text,
                };
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then(|| digits.parse().ok()).flatten()?
            }
        };
        (number > 0).then_some(number)
    }
}

fn price_id(id: &Value) -> Result<String, CheckoutProblem> {
    let id = id.as_str().filter(|id| {
        let mut bytes = id.bytes();
        (1..=LONGEST_PRICE_ID).contains(&id.len())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    id.map(ToOwned::to_owned).ok_or(CheckoutProblem::PriceId)
}

fn named(
    name: Option<&Value>,
    amount: Option<&Value>,
    currency: Option<&Value>,
) -> Result<Article, CheckoutProblem> {
    let name = name.and_then(Value::as_str);
    let name = name.filter(|name| is_text(name, LONGEST_NAME) && !name.trim().is_empty());
    let amount = amount.and_then(Value::as_i64);
    let amount = amount.filter(|minor| (1..=MOST_MINOR).contains(minor));
    let currency = currency.and_then(Value::as_str);
    let currency = currency.and_then(Currency::parse);
    let currency = currency.filter(|code| CURRENCIES.contains(&code.as_str()));
    Ok(Article::Named {
        name: name.ok_or(CheckoutProblem::Name)?.to_owned(),
        amount: amount.ok_or(CheckoutProblem::Amount)?,
        currency: currency.ok_or(CheckoutProblem::Currency)?,
    })
}

fn is_text(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.chars().count()) && !text.contains(char::is_control)
}

/// Enough to notice a mistake; whether there is such an address the provider finds out.
fn is_email(text: &str) -> bool {
    let parts = text.split_once('@');
    text.len() <= LONGEST_EMAIL
        && parts.is_some_and(|(name, host)| !name.is_empty() && host.contains('.'))
        && text.bytes().filter(|byte| *byte == b'@').count() == 1
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn named_shop(shop: &str, opened: &Shops, served: &[String]) -> Result<String, CheckoutError> {
    let shop = api_key::shop(shop).map_err(|_| CheckoutProblem::Shop)?;
    if opened.have(&shop) && (served.is_empty() || served.contains(&shop)) {
        Ok(shop)
    } else {
        Err(CheckoutProblem::Shop.into())
    }
}

/// The only shop that can be meant. None: there are several, or the storefront's address alone
/// decides.
fn only_shop(opened: &Shops, served: &[String]) -> Option<String> {
    let meant: Vec<&String> = match &opened.0 {
        Some(list) => list
            .iter()
            .filter(|shop| *shop != CHECKOUT)
            .filter(|shop| served.is_empty() || served.contains(shop))
            .collect(),
        None => served.iter().collect(),
    };
    match meant.as_slice() {
        [only] => Some((*only).clone()),
        _ => None,
    }
}
