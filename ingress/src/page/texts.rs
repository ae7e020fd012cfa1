//! The texts of the buyers' pages. Each language has a file of its own, and a text that is missing in one does not compile.
//! For another language: add it to `domain::branding::Language`, write its file, and name it in [`Texts::of`].

mod de;
mod en;
mod es;
mod fr;

use domain::branding::Language;
use domain::due::NothingDue;
use domain::money::Money;
use domain::order::FinancialStatus;
use domain::order::outcome::ParcelState;
use domain::time::Timestamp;
use store::public_orders::Progress;

use crate::error::Error;

/// All texts in one language. In some of them `{}` stands for a value.
pub struct Texts {
    pub language: Language,
    pub order: &'static str,
    pub progress: ProgressTexts,
    pub steps: StepTexts,
    pub payment: PaymentTexts,
    pub parcels: ParcelTexts,
    pub due: DueTexts,
    pub choice: ChoiceTexts,
    pub refusals: RefusalTexts,
    /// Before the address of whom a buyer may ask.
    pub questions: &'static str,
    /// The link to the page of whom a buyer may ask.
    pub ask_the_shop: &'static str,
    /// Beside the QR code of the page.
    pub scan: &'static str,
    pub updated: &'static str,
    /// Stands before the decimals of an amount.
    pub decimal: char,
    /// The form of a day, with `{day}`, `{month}` and `{year}`.
    pub date: &'static str,
    pub months: [&'static str; 12],
}

/// How far an order is: in a word, and in a sentence.
pub struct ProgressTexts {
    pub received: [&'static str; 2],
    pub preparing: [&'static str; 2],
    /// The sentence where a part was shipped already.
    pub partly_shipped: &'static str,
    /// The sentence where a part was sent, and nothing of it is on its way any more.
    pub partly_sent: &'static str,
    pub shipped: [&'static str; 2],
    /// The sentences where all shipments are so.
    pub announced: &'static str,
    pub ready_for_pickup: &'static str,
    pub not_delivered: &'static str,
    /// The sentence where one shipment is further on than another.
    pub different: &'static str,
    /// The sentence where every parcel was delivered.
    pub delivered: &'static str,
    /// The sentence where every parcel came back.
    pub returned: &'static str,
    pub cancelled: [&'static str; 2],
    pub not_shipping: [&'static str; 2],
}

pub struct StepTexts {
    pub label: &'static str,
    pub done: &'static str,
    pub now: &'static str,
    pub next: &'static str,
    pub last: &'static str,
}

pub struct PaymentTexts {
    pub label: &'static str,
    pub pending: &'static str,
    pub authorized: &'static str,
    pub partially_paid: &'static str,
    pub paid: &'static str,
    pub partially_refunded: &'static str,
    pub refunded: &'static str,
    pub voided: &'static str,
    pub expired: &'static str,
    pub unknown: &'static str,
}

pub struct ParcelTexts {
    pub one: &'static str,
    pub several: &'static str,
    pub carrier: &'static str,
    pub number: &'static str,
    pub status: &'static str,
    /// Before the name of the carrier's site.
    pub track_at: &'static str,
    pub no_number: &'static str,
    pub one_is_yours: &'static str,
    pub announced: &'static str,
    pub shipped: &'static str,
    /// The state of a parcel that had left before its order was cancelled.
    pub shipped_before: &'static str,
    pub out_for_delivery: &'static str,
    pub attempted: &'static str,
    pub ready_for_pickup: &'static str,
    pub delivered: &'static str,
    pub not_delivered: &'static str,
    pub returned: &'static str,
    pub cancelled: &'static str,
}

pub struct DueTexts {
    pub title: &'static str,
    pub amount: &'static str,
    pub how: &'static str,
    pub nothing: &'static str,
    pub ask_title: &'static str,
    pub ask: &'static str,
    pub check: &'static str,
    pub link_asks: &'static str,
    pub link_is_garbled: &'static str,
    pub pay_no_more: &'static str,
    pub do_not_pay: &'static str,
    pub ask_before: &'static str,
    pub cancelled: &'static str,
    pub paid: &'static str,
    pub partially_refunded: &'static str,
    pub refunded: &'static str,
    pub voided: &'static str,
    pub authorized: &'static str,
    pub zero: &'static str,
}

pub struct ChoiceTexts {
    pub title: &'static str,
    pub several: &'static str,
    pub unnamed: &'static str,
}

/// A heading and an advice for each page that cannot be shown.
pub struct RefusalTexts {
    pub order_not_found: [&'static str; 2],
    pub parcel_not_found: [&'static str; 2],
    pub incomplete: [&'static str; 2],
    pub too_many: [&'static str; 2],
    pub later: [&'static str; 2],
    pub other: [&'static str; 2],
}

impl Texts {
    pub fn of(language: Language) -> &'static Texts {
        match language {
            Language::English => &en::TEXTS,
            Language::German => &de::TEXTS,
            Language::French => &fr::TEXTS,
            Language::Spanish => &es::TEXTS,
        }
    }

    /// The tag of the language.
    pub fn tag(&self) -> &'static str {
        self.language.tag()
    }

    /// How far an order is: in a word, and in a sentence.
    pub fn progress(&'static self, progress: Progress) -> &'static [&'static str; 2] {
        let texts = &self.progress;
        match progress {
            Progress::Received => &texts.received,
            Progress::Preparing => &texts.preparing,
            Progress::Shipped => &texts.shipped,
            Progress::Cancelled => &texts.cancelled,
            Progress::NotShipping => &texts.not_shipping,
        }
    }

    pub fn payment(&self, status: Option<&FinancialStatus>) -> &'static str {
        let texts = &self.payment;
        match status {
            Some(FinancialStatus::Pending) => texts.pending,
            Some(FinancialStatus::Authorized) => texts.authorized,
            Some(FinancialStatus::PartiallyPaid) => texts.partially_paid,
            Some(FinancialStatus::Paid) => texts.paid,
            Some(FinancialStatus::PartiallyRefunded) => texts.partially_refunded,
            Some(FinancialStatus::Refunded) => texts.refunded,
            Some(FinancialStatus::Voided) => texts.voided,
            Some(FinancialStatus::Expired) => texts.expired,
            Some(FinancialStatus::Other(_)) | None => texts.unknown,
        }
    }

    /// How far a parcel is. Of an order that was cancelled, it had left before.
    pub fn parcel(&self, state: ParcelState, is_cancelled: bool) -> &'static str {
        let texts = &self.parcels;
        match state {
            ParcelState::Announced => texts.announced,
            ParcelState::Shipped if is_cancelled => texts.shipped_before,
            ParcelState::Shipped => texts.shipped,
            ParcelState::OutForDelivery => texts.out_for_delivery,
            ParcelState::Attempted => texts.attempted,
            ParcelState::ReadyForPickup => texts.ready_for_pickup,
            ParcelState::Delivered => texts.delivered,
            ParcelState::NotDelivered => texts.not_delivered,
            ParcelState::Returned => texts.returned,
            ParcelState::Cancelled => texts.cancelled,
        }
    }

    pub fn nothing_due(&self, settled: NothingDue) -> &'static str {
        let texts = &self.due;
        match settled {
            NothingDue::Cancelled => texts.cancelled,
            NothingDue::Paid => texts.paid,
            NothingDue::PartiallyRefunded => texts.partially_refunded,
            NothingDue::Refunded => texts.refunded,
            NothingDue::Voided => texts.voided,
            NothingDue::Authorized => texts.authorized,
            NothingDue::Zero => texts.zero,
        }
    }

    pub fn refusal(&self, error: Error) -> [&'static str; 2] {
        let texts = &self.refusals;
        match error {
            Error::OrderNotFound => texts.order_not_found,
            Error::ParcelNotFound => texts.parcel_not_found,
            Error::ShopQuery => texts.incomplete,
            Error::RateLimited(_) => texts.too_many,
            Error::Unavailable | Error::NotServed => texts.later,
            _ => texts.other,
        }
    }

    /// An amount with its currency, `403.00 USD`.
    pub fn money(&self, money: Money) -> String {
        // In Mexico amounts are written with a point.
        let decimal = match money.currency.as_str() {
            "MXN" => '.',
            _ => self.decimal,
        };
        let amount = money.to_string().replace('.', &decimal.to_string());
        format!("{amount} {}", money.currency)
    }

    /// A time for people who may be anywhere: `15 January 2027, 08:00 UTC`.
    pub fn updated(&self, at: Timestamp) -> Updated {
        let words = at.parts().map(|(year, month, day, time)| {
            let date = self
                .date
                .replace("{day}", &day.to_string())
                .replace("{month}", self.months[usize::from(month) - 1])
                .replace("{year}", &year.to_string());
            format!("{date}, {time} UTC")
        });
        Updated {
            at,
            words: words.unwrap_or_else(|| at.to_string()),
        }
    }
}

/// When a page last changed, for programs and in words.
pub struct Updated {
    pub at: Timestamp,
    pub words: String,
}
