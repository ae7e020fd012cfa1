//! Finds the people that a webhook body may be about: every address and id anywhere in it, and
//! every telephone number. A number counts as a telephone number only in a field that is named
//! like one, or when it is written like one (`+..`, `tel:`); any other number is an amount or an
//! id. Bodies that no handler could read are searched in the same way.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use uuid::Uuid;

use super::{Keys, SubjectKey, email, phone};
use crate::connection::qualified;
use crate::json::{self, Field, fields};
use crate::order::woocommerce;

/// Values that are nested deeper than this are not searched. No provider nests as deep.
const DEEPEST: usize = 32;

/// Prefixes of the ids of the payment provider's objects by which a person is found.
const OBJECTS: [&str; 3] = ["pi_", "cs_", "sub_"];

/// The prefix of the ids of the payment provider's customers.
const PAYER: &str = "cus_";

/// Addresses and numbers are in the form in which they are compared.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    pub emails: BTreeSet<String>,
    pub phones: BTreeSet<String>,
    /// Ids of the payment provider's objects.
    pub ids: BTreeSet<String>,
    /// Ids of agreements, which are the values of every `pact_id` in the body.
    pub agreements: BTreeSet<String>,
    /// Ids of the payment provider's customers, which are the values of every `customer` in the
    /// body.
    pub payers: BTreeSet<String>,
    /// In a body of the storefront, the addresses and numbers of the person who made the order.
    /// The body can mention other people too, such as the one who gets a gift.
    pub own_emails: BTreeSet<String>,
    pub own_phones: BTreeSet<String>,
    /// `customer.id` of a storefront's body.
    pub customer: Option<i64>,
    /// `id` of a storefront's body.
    pub order: Option<i64>,
}

impl Mentions {
    /// Gives the ids of a payment provider's body the name of its connection (`crate::connection`).
    pub fn qualify(&mut self, connection: &str) {
        for ids in [&mut self.ids, &mut self.agreements, &mut self.payers] {
            let bare = std::mem::take(ids);
            ids.extend(bare.iter().map(|id| qualified(connection, id).into_owned()));
        }
    }

    /// Searches a body. One that is not JSON mentions nobody; intake accepts no such body.
    pub fn of(body: &[u8]) -> Self {
        fields! { Own {
            id, email, contact_email, phone, customer,
            /// WooCommerce's: the id of the customer, and the address that names the buyer.
            customer_id,
            billing, date_created_gmt, date_created, created_at,
        }}

        let mut mentions = Mentions::default();
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let visitor = BodyVisitor {
            mentions: &mut mentions,
            place: Place::Anywhere,
            depth: 0,
        };
        if serde::de::DeserializeSeed::deserialize(visitor, &mut deserializer).is_err() {
            // The body has a lone surrogate or is nested far too deep. Everything between quotes
            // is searched instead.
            let text = String::from_utf8_lossy(body);
            text.split(['"', ':', ','])
                .for_each(|text| mentions.add(text, Place::Anywhere));
        }
        if let Ok(own) = json::object::<Own>(body) {
            mentions.order = own.id.id().unwrap_or_default();
            let is_of_woocommerce =
                woocommerce::is_marked(own.date_created_gmt, own.date_created, own.created_at);
            let customer = if is_of_woocommerce {
                own.billing
            } else {
                own.customer
            };
            let customer: Own = customer.object().unwrap_or_default().unwrap_or_default();
            let customer_id = if is_of_woocommerce {
                own.customer_id
            } else {
                customer.id
            };
            mentions.customer = customer_id.id().unwrap_or_default();
            for field in [own.email, own.contact_email, customer.email] {
                let text = field.text().unwrap_or_default();
                mentions.own_emails.extend(text.map(|text| email(&text)));
            }
            for field in [own.phone, customer.phone] {
                let text = field.text().unwrap_or_default();
                mentions
                    .own_phones
                    .extend(text.and_then(|text| phone(&text)));
            }
        }
        mentions
    }

    /// The e-mail addresses and the telephone numbers of people other than the one who made the
    /// order.
    pub fn of_others(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let emails = self.emails.difference(&self.own_emails);
        let phones = self.phones.difference(&self.own_phones);
        (emails.cloned().collect(), phones.cloned().collect())
    }

    /// The keys of the tombstones for the payment provider's objects and agreements in the body.
    /// These tombstones never expire.
    pub fn payment_keys(&self, keys: &Keys, shop: &str) -> Vec<Uuid> {
        let ids = self.ids.iter().map(|id| SubjectKey::Payment(id));
        let agreements = self
            .agreements
            .iter()
            .map(|agreement| SubjectKey::Agreement(agreement));
        let all = ids.chain(agreements);
        all.filter_map(|key| keys.subject(shop, key)).collect()
    }

    fn add(&mut self, text: &str, place: Place) {
        const LONGEST: usize = 320;
        let text = text.trim();
        if text.is_empty() || text.len() > LONGEST {
            return;
        }
        if text.contains('@') {
            self.emails.insert(email(text));
            return;
        }
        let is_written_as_one = text.starts_with(['+', '\u{ff0b}']) || text.starts_with("tel:");
        if place == Place::Phone || is_written_as_one {
            self.phones.extend(phone(text));
        }
        if place == Place::Payer && text.starts_with(PAYER) {
            self.payers.insert(text.to_owned());
        }
        if OBJECTS.iter().any(|prefix| text.starts_with(prefix)) {
            self.ids.insert(text.to_owned());
        }
    }
}

/// When an order or a payment was made, in Unix milliseconds, if its body says so. An event of
/// today may be about a payment of last year, so the earlier time of the event's and its object's
/// counts.
pub fn created_at(body: &[u8]) -> Option<i64> {
    fields! { Times {
        created_at,
        /// WooCommerce's.
        date_created_gmt, date_created,
        created, data, object,
    }}

    let times: Times = json::object(body).ok()?;
    let seconds = |times: &Times| {
        let seconds = times.created.integer().unwrap_or_default();
        seconds.map(|seconds| seconds.saturating_mul(1000))
    };
    let of_woocommerce = woocommerce::time(times.date_created_gmt, times.date_created);
    let created = [times.created_at, of_woocommerce].map(Field::instant);
    let instant = created.into_iter().find_map(Result::unwrap_or_default);
    let object = match times.data.object::<Times>() {
        Ok(Some(data)) => match data.object.object::<Times>() {
            Ok(Some(object)) => seconds(&object),
            _ => None,
        },
        _ => None,
    };
    let reported = [seconds(&times), object];
    instant.or(reported.into_iter().flatten().min())
}

/// The kind of place where a value stands, by the name of its field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Anywhere,
    Phone,
    Agreement,
    Payer,
}

impl Place {
    /// The place of a field with this name in an object that stands in the place `outer`.
    fn of(name: &str, outer: Place) -> Self {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "pact_id" => Place::Agreement,
            "customer" => Place::Payer,
            "id" if outer == Place::Payer => Place::Payer,
            "tel" | "telephone" | "mobile" | "fax" => Place::Phone,
            name if name.contains("phone") => Place::Phone,
            _ => Place::Anywhere,
        }
    }
}

struct BodyVisitor<'m> {
    mentions: &'m mut Mentions,
    place: Place,
    depth: usize,
}

impl<'de> serde::de::DeserializeSeed<'de> for BodyVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth > DEEPEST {
            return IgnoredAny::deserialize(deserializer).map(|_| ());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BodyVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.place == Place::Agreement {
            self.mentions.agreements.insert(text.to_owned());
        }
        self.mentions.add(text, self.place);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        if self.place == Place::Phone {
            self.mentions.add(&number.to_string(), self.place);
        }
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let depth = self.depth + 1;
        while items
            .next_element_seed(BodyVisitor {
                mentions: &mut *self.mentions,
                place: if self.place == Place::Phone {
                    Place::Phone
                } else {
                    Place::Anywhere
                },
                depth,
            })?
            .is_some()
        {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let depth = self.depth + 1;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            map.next_value_seed(BodyVisitor {
                mentions: &mut *self.mentions,
                place: Place::of(&key, self.place),
                depth,
            })?;
        }
        Ok(())
    }
}
