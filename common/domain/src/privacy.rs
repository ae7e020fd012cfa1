//! Privacy requests: what their bodies say, whom they mean, and the keyed hashes by which a
//! person is recognized after everything else about them is erased.
//!
//! The headers with the topic and the shop are not signed, so somebody could send a captured body
//! again under another topic. Therefore each topic requires its own keys in the body and refuses
//! keys of the other topics (for example, a body of `shop/redact` is no `customers/redact`), and
//! the shop is read from the body.

mod erased_body;
pub mod journal;
mod keys;
pub mod link;
mod mentions;
mod operator_view;
mod person;
pub mod transparency;

use std::time::Duration;

use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::json::{self, At, Field, Problem, Unreadable, fields};
use crate::names::{Unknown, unlisted};

pub use self::erased_body::erased_body;
pub use self::keys::{Asked, Keys, SubjectKey, verify};
pub use self::mentions::{Mentions, created_at};
pub use self::operator_view::operator_view;
pub use self::person::{Decided, Held, Maker, may_own_payment, owns_order, owns_payment};

/// How long after its delivery a request must be finished (docs/privacy.md).
pub const PERIOD: Duration = Duration::from_hours(30 * 24);
/// How long before the deadline of a request the operator is warned ([`WARNING`]), and when an
/// alarm is raised ([`ALARM`]).
pub const WARNING: Duration = Duration::from_hours(7 * 24);
pub const ALARM: Duration = Duration::from_hours(48);

/// The longest shop domain, in bytes.
const SHOP_LEN: usize = 255;

/// The topics of the storefront about data of people.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(const_into_str)]
pub enum Topic {
    #[strum(serialize = "customers/data_request")]
    DataRequest,
    #[strum(serialize = "customers/redact")]
    Redact,
    #[strum(serialize = "shop/redact")]
    ShopRedact,
}

/// The state of a privacy request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unlisted::<State>)]
pub enum State {
    Received,
    /// The request waits, and an operator can still cancel it.
    Held,
    Done,
    Cancelled,
    /// The request was given up. `waybill privacy retry` starts it again.
    Failed,
}

impl State {
    pub const ALL: [State; 5] = *State::VARIANTS.as_array().unwrap();
}

/// The person that a request is about, as far as the request says. Debug shows the id alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Person {
    pub id: Option<i64>,
    pub email: Option<String>,
    pub phone: Option<String>,
}

/// What a body asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub topic: Topic,
    /// The shop's domain in lower case.
    pub shop: String,
    /// Empty for a request about a whole shop.
    pub person: Person,
    /// The ids of the orders that the request names.
    pub orders: Vec<i64>,
}

impl Request {
    /// Reads a body under the topic that it came with. An error is final, because the same bytes
    /// will never be a request of this topic.
    pub fn read(topic: Topic, body: &[u8]) -> Result<Self, Unreadable> {
        let body: Body = json::object(body)?;
        for (name, field) in body.foreign(topic) {
            if field.is_present() {
                return Err(Problem::Foreign).at(name);
            }
        }
        let shop = required(body.shop_domain.text()).at("shop_domain")?;
        if shop.len() > SHOP_LEN || !shop.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Problem::NotAnId).at("shop_domain");
        }
        let (person, orders) = match topic {
            Topic::ShopRedact => (Person::default(), Vec::new()),
            Topic::DataRequest => (
                person(body.customer)?,
                orders(body.orders_requested).at("orders_requested")?,
            ),
            Topic::Redact => (
                person(body.customer)?,
                orders(body.orders_to_redact).at("orders_to_redact")?,
            ),
        };
        Ok(Request {
            topic,
            shop: shop.to_ascii_lowercase(),
            person,
            orders,
        })
    }

    /// True when the request names neither a customer nor an order. Intake refuses such a
    /// request. The stored body of an open request can become such a one when its customer is
    /// erased in the meantime.
    pub fn is_about_nobody(&self) -> bool {
        let is_of_person = self.topic != Topic::ShopRedact;
        is_of_person && self.person == Person::default() && self.orders.is_empty()
    }
}

impl std::fmt::Debug for Person {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Person")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// An e-mail address in the form in which addresses are compared: without surrounding space, in
/// lower case.
pub fn email(text: &str) -> String {
    text.trim().to_lowercase()
}

/// A telephone number in the form in which numbers are compared: its digits, without the
/// international prefix (`00`), a trunk zero `(0)` and an extension (`x12`, `ext. 12`,
/// `;ext=12`). None when there are too few digits to tell two people apart, or when all digits
/// are the same, because such a number was made up.
pub fn phone(text: &str) -> Option<String> {
    const FEWEST: usize = 6;
    let begin = text.find(|c| digit(c).is_some())?;
    let (before, number) = text.split_at(begin);
    let is_extension = |c: char| "xXeE;#,".contains(c);
    let number = number.split(is_extension).next().unwrap_or_default();
    let is_abroad = before.contains('+') || number.starts_with("00");
    let number = if is_abroad {
        number.replacen("(0)", "", 1)
    } else {
        number.to_owned()
    };
    let digits: String = number.chars().filter_map(digit).collect();
    let digits = digits.trim_start_matches("00");
    let first = digits.chars().next();
    let is_made_up = digits.chars().all(|digit| Some(digit) == first);
    (digits.len() >= FEWEST && !is_made_up).then(|| digits.to_owned())
}

/// The value of a decimal digit of any script in which people type telephone numbers.
fn digit(c: char) -> Option<char> {
    let zeros = ['0', '\u{660}', '\u{6f0}', '\u{966}', '\u{ff10}'];
    zeros.into_iter().find_map(|zero| {
        let value = u32::from(c).checked_sub(u32::from(zero))?;
        char::from_digit(value, 10)
    })
}

/// The text that a row stores beside an address and by which the row is found. Empty when the
/// text is no address, so that the row is not looked at again.
pub fn email_key(text: &str) -> String {
    let email = email(text);
    if email.contains('@') {
        email
    } else {
        String::new()
    }
}

/// The text that a row stores beside a telephone number; see [`email_key`].
pub fn phone_key(text: &str) -> String {
    phone(text).unwrap_or_default()
}

fields! { Body {
    shop_domain, customer, orders_requested, orders_to_redact, data_request, id, line_items,
}}

impl<'a> Body<'a> {
    /// The keys that only bodies of other topics have.
    fn foreign(&self, topic: Topic) -> Vec<(&'static str, Field<'a>)> {
        let mut fields = vec![("id", self.id), ("line_items", self.line_items)];
        if topic != Topic::DataRequest {
            fields.push(("orders_requested", self.orders_requested));
            fields.push(("data_request", self.data_request));
        }
        if topic != Topic::Redact {
            fields.push(("orders_to_redact", self.orders_to_redact));
        }
        if topic == Topic::ShopRedact {
            fields.push(("customer", self.customer));
        }
        fields
    }
}

fn required<T>(read: Result<Option<T>, Problem>) -> Result<T, Problem> {
    read?.ok_or(Problem::Missing)
}

fn person(field: Field) -> Result<Person, Unreadable> {
    fields! { Fields { id, email, phone } }

    let fields = required(field.object::<Fields>()).at("customer")?;
    Ok(Person {
        id: fields.id.id().at("customer.id")?,
        email: fields.email.text().at("customer.email")?,
        phone: fields.phone.text().at("customer.phone")?,
    })
}

/// The list of orders. Its key must be in the body, because it distinguishes a request of this
/// topic from the others. The list may be empty.
fn orders(field: Field) -> Result<Vec<i64>, Problem> {
    if !field.is_present() {
        return Err(Problem::Missing);
    }
    let values = field.values()?.into_iter();
    values.map(|value| required(value.id())).collect()
}
