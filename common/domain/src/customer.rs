//! What all orders of a customer say of them. Merging keeps for each field what the newest order says that
//! has the field, so orders may come in any sequence and any number of times.

use serde::{Deserialize, Serialize};

use crate::order::Customer;
use crate::record::{Rest, newest};

/// It has no Debug, because that would show the person.
#[derive(Clone, Default, PartialEq, Eq, row::Record)]
#[schema(1)]
pub struct Record {
    #[person]
    pub email: Option<Stated>,
    #[person]
    pub phone: Option<Stated>,
    #[person]
    pub first_name: Option<Stated>,
    #[person]
    pub last_name: Option<Stated>,
    pub rest: Rest,
}

/// What an order says, and the time of the order's version in Unix milliseconds. If two are as new, the
/// greater text stays.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stated {
    pub at: i64,
    pub value: String,
}

impl Record {
    /// What an order says whose version is of this time.
    pub fn of(customer: &Customer, at: i64) -> Self {
        let stated = |value: &Option<String>| {
            let value = value.clone();
            value.map(|value| Stated { at, value })
        };
        Record {
            email: stated(&customer.email),
            phone: stated(&customer.phone),
            first_name: stated(&customer.first_name),
            last_name: stated(&customer.last_name),
            rest: Rest::default(),
        }
    }

    /// Merges what another order says, newer or older, into this.
    pub fn merge(&mut self, other: Record) {
        newest(&mut self.email, other.email);
        newest(&mut self.phone, other.phone);
        newest(&mut self.first_name, other.first_name);
        newest(&mut self.last_name, other.last_name);
    }

    pub fn email(&self) -> Option<&str> {
        self.email.as_ref().map(|it| it.value.as_str())
    }

    pub fn phone(&self) -> Option<&str> {
        self.phone.as_ref().map(|it| it.value.as_str())
    }
}
