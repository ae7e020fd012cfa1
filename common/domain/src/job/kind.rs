//! The kinds of jobs, and the one table of what everybody asks about a kind ([`Kind::row`]).
//!
//! The name of a kind is the storefront's topic, the payment provider's event type or, for work of
//! our own, a word of ours. Names are stored, and sent to the broker. A job whose name this version
//! does not know waits until a version runs that knows it.

use std::fmt;
use std::sync::LazyLock;

use strum::{EnumDiscriminants, IntoStaticStr, VariantArray};

use super::{Queue, Source};
use crate::order::Topic;
use crate::pause::Provider;
use crate::payment::{EventType, thin};
use crate::privacy;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumDiscriminants)]
#[strum_discriminants(name(Family), derive(VariantArray), vis())]
pub enum Kind {
    /// The storefront says how an order is.
    Order(Topic),
    /// The storefront passes on a request about a person's data, or a shop's.
    Privacy(privacy::Topic),
    /// The payment provider says how an object of its own is.
    Payment(EventType),
    /// The payment provider says the same and leaves the object out, which is to be fetched.
    ThinPayment(EventType),
    /// Another job asked for it.
    Internal(Internal),
}

/// Work of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
pub enum Internal {
    /// Asks the storefront whether it agrees with what only the topic of a delivery says.
    #[strum(serialize = "topics/confirm")]
    ConfirmTopic,
    /// Asks the storefront to fulfil an order.
    #[strum(serialize = "fulfillments/request")]
    RequestFulfillment,
    /// Asks the payment provider to give a payment of an order back.
    #[strum(serialize = "refunds/issue")]
    IssueRefund,
    /// Asks the payment provider to try a failed payment again.
    #[strum(serialize = "payments/retry")]
    RetryPayment,
    /// Looks once more for the order of an agreement.
    #[strum(serialize = "payments/link")]
    LinkPayment,
    /// Ends the wait of a placeholder for the storefront's own order.
    #[strum(serialize = "payments/end_wait")]
    EndWait,
    /// Mails a customer.
    #[strum(serialize = "notifications/send")]
    SendNotification,
    /// Erases what belongs to orders of a person whose data was erased before.
    #[strum(serialize = "privacy/erase_again")]
    EraseAgain,
    /// Sends an event to an endpoint that did not accept it at first.
    #[strum(serialize = "endpoints/send")]
    SendEvent,
    /// Sends a test event to an endpoint. A failure is the answer, and is not tried again.
    #[strum(serialize = "endpoints/test")]
    TestEndpoint,
}

/// What the table says of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The queue also decides when a failed job runs again (`super::policy`).
    pub queue: Queue,
    pub source: Source,
    pub work: Work,
    pub exhausted: Exhausted,
}

/// How a job is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It writes in the transaction that marks it done.
    Writes,
    /// It asks a provider while no transaction is open, and another transaction writes the answer.
    Asks(Provider),
    /// It calls an endpoint of the merchant, in the same two steps.
    CallsEndpoint,
    /// It reads and writes in many small transactions, because one would take too long.
    TakesLong,
}

/// What is written when a job is given up, beside that it is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// Nothing: whatever the job is about stays as it is until an operator runs the job again.
    Nothing,
    /// The storefront will not fulfil the order.
    FulfillmentFailed,
    /// There will be no refund.
    RefundFailed,
    /// The provider did not take this attempt at the payment.
    RetryFailed,
    /// The mail was not sent.
    NotificationFailed,
    /// The event does not come to the endpoint, and the next one of its object is due.
    EventNotSent,
    /// The privacy request is not carried out by itself.
    RequestFailed,
}

impl Kind {
    /// The table. Each kind is named in it, so that a new one does not compile without its row.
    pub const fn row(self) -> Row {
        use Exhausted::{
            EventNotSent, FulfillmentFailed, Nothing, NotificationFailed, RefundFailed,
            RequestFailed, RetryFailed,
        };
        use Internal::{
            ConfirmTopic, EndWait, EraseAgain, IssueRefund, LinkPayment, RequestFulfillment,
            RetryPayment, SendEvent, SendNotification, TestEndpoint,
        };
        use Provider::{Mail, Payment, Storefront};
        use Queue::{Endpoints, Orders, Payments, Privacy};
        use Work::{Asks, CallsEndpoint, TakesLong, Writes};

        let internal = Source::Internal;
        match self {
            Kind::Order(
                Topic::Create
                | Topic::Updated
                | Topic::Paid
                | Topic::Fulfilled
                | Topic::Cancelled
                | Topic::Deleted,
            ) => row(Orders, Source::Storefront, Writes, Nothing),
            Kind::Privacy(
                privacy::Topic::DataRequest | privacy::Topic::Redact | privacy::Topic::ShopRedact,
            ) => row(Privacy, Source::Storefront, TakesLong, RequestFailed),
            Kind::Payment(_) => row(Payments, Source::Payment, Writes, Nothing),
            Kind::ThinPayment(of) => Row {
                work: Asks(Payment),
                ..Kind::Payment(of).row()
            },
            Kind::Internal(of) => match of {
                ConfirmTopic => row(Orders, internal, Asks(Storefront), Nothing),
                RequestFulfillment => row(Orders, internal, Asks(Storefront), FulfillmentFailed),
                IssueRefund => row(Payments, internal, Asks(Payment), RefundFailed),
                RetryPayment => row(Payments, internal, Asks(Payment), RetryFailed),
                LinkPayment | EndWait => row(Payments, internal, Writes, Nothing),
                SendNotification => row(Payments, internal, Asks(Mail), NotificationFailed),
                EraseAgain => row(Privacy, internal, TakesLong, RequestFailed),
                SendEvent => row(Endpoints, internal, CallsEndpoint, EventNotSent),
                TestEndpoint => row(Endpoints, internal, CallsEndpoint, Nothing),
            },
        }
    }

    pub fn all() -> &'static [Kind] {
        static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| {
            let of_family = |family: &Family| match family {
                Family::Order => each(Kind::Order),
                Family::Privacy => each(Kind::Privacy),
                Family::Payment => each(Kind::Payment),
                Family::ThinPayment => each(Kind::ThinPayment),
                Family::Internal => each(Kind::Internal),
            };
            Family::VARIANTS.iter().flat_map(of_family).collect()
        });
        &ALL
    }

    pub fn of_queue(queue: Queue) -> impl Iterator<Item = Self> {
        let all = Kind::all().iter().copied();
        all.filter(move |kind| kind.queue() == queue)
    }

    /// The kind with this name, if this version knows it.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Kind::all().iter().copied();
        let of_order = name.parse().ok().map(Kind::Order);
        of_order.or_else(|| all.find(|kind| kind.into_str() == name))
    }

    /// The kind with this name of a job from this source. `None` if this version does nothing with
    /// such a job but to keep it.
    pub fn of(source: Source, name: &str) -> Option<Self> {
        Kind::named(name).filter(|kind| kind.row().source == source)
    }

    pub fn into_str(self) -> &'static str {
        match self {
            Kind::Order(topic) => topic.into_str(),
            Kind::Privacy(topic) => topic.into_str(),
            Kind::Payment(of) => of.into_str(),
            Kind::ThinPayment(of) => thin::event_type(of),
            Kind::Internal(of) => of.into_str(),
        }
    }

    pub const fn queue(self) -> Queue {
        self.row().queue
    }

    /// Whether jobs of this kind are deliveries, and not work of our own.
    pub fn is_delivery(self) -> bool {
        self.row().source != Source::Internal
    }

    /// Whether the job runs outside the transaction that marks it done.
    pub fn is_call(self) -> bool {
        self.row().work != Work::Writes
    }

    /// The provider that the job asks.
    pub const fn provider(self) -> Option<Provider> {
        match self.row().work {
            Work::Asks(provider) => Some(provider),
            Work::Writes | Work::CallsEndpoint | Work::TakesLong => None,
        }
    }
}

const fn row(queue: Queue, source: Source, work: Work, exhausted: Exhausted) -> Row {
    Row {
        queue,
        source,
        work,
        exhausted,
    }
}

fn each<T: VariantArray + Copy>(kind: fn(T) -> Kind) -> Vec<Kind> {
    T::VARIANTS.iter().copied().map(kind).collect()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.into_str())
    }
}
