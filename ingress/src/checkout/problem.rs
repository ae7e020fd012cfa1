//! What is wrong with a request for a checkout. Texts name fields and never values.

use std::fmt;

use domain::code::Code;
use domain::origins::NotAllowed;

/// A mistake, and in which line item it is, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckoutError {
    pub item: Option<usize>,
    pub what: CheckoutProblem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckoutProblem {
    #[error("the body is not JSON")]
    NotJson,
    #[error("the body is not a JSON object")]
    NotAnObject,
    #[error(
        "line {line}, column {column}: this field is not known, is given twice (perhaps in both \
         spellings), or has a value of another type"
    )]
    Field { line: u32, column: u32 },
    #[error("line_items must be a list of 1 to 100 items")]
    Items,
    #[error("return_url is missing")]
    NoReturnUrl,
    #[error("return_url {0}")]
    ReturnUrl(NotAllowed),
    #[error("cancel_url {0}")]
    CancelUrl(NotAllowed),
    #[error("customer_email must be an e-mail address of at most 254 characters")]
    Email,
    #[error("client_reference_id must be 1 to 200 characters without control characters")]
    Reference,
    #[error(
        "shop must name the shop whose variants are meant: one of STOREFRONT_SHOPS, if that is set, \
             that this API key opens"
    )]
    Shop,
    #[error("Idempotency-Key must be one header of 1 to 255 visible ASCII characters")]
    IdempotencyKey,
    #[error("must have variant_id, or price, or name with amount and currency, and only these")]
    Article,
    #[error("quantity must be a whole number from 1 to 999")]
    Quantity,
    #[error("variant_id must be the number of a variant, as a number or as text")]
    VariantId,
    #[error("price must be the id of a price at the payment provider, like price_..")]
    PriceId,
    #[error("name must be 1 to 250 characters without control characters")]
    Name,
    #[error("amount must be a positive whole number of minor units (cents), at most 99999999")]
    Amount,
    #[error("currency must be USD, EUR, GBP or MXN")]
    Currency,
    #[error(
        "the storefront sells this variant in a currency that cannot be paid in here; that is USD, \
         EUR, GBP or MXN"
    )]
    VariantCurrency,
    #[error("all items must be in the same currency")]
    Currencies,
    #[error("variants cannot be sold here: STOREFRONT_API_URL is not set")]
    NoStorefront,
    #[error("the storefront does not sell this variant")]
    UnknownVariant,
}

impl CheckoutError {
    /// The application code of `domain::code`, if it has one for this.
    pub fn code(self) -> Option<Code> {
        match self.what {
            CheckoutProblem::Amount => Some(Code::Amount),
            CheckoutProblem::Currency
            | CheckoutProblem::VariantCurrency
            | CheckoutProblem::Currencies => Some(Code::Currency),
            _ => None,
        }
    }
}

impl From<CheckoutProblem> for CheckoutError {
    fn from(what: CheckoutProblem) -> Self {
        CheckoutError { item: None, what }
    }
}

impl fmt::Display for CheckoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            Some(item) => write!(f, "line_items[{item}]: {}", self.what),
            None => self.what.fmt(f),
        }
    }
}
