//! All types of events with their fields, read off the types themselves: of this the description
//! of the API and docs/events.md are made.

use std::collections::HashMap;

use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayItems, Object, OneOf, Schema};

use super::{
    CheckoutEvent, ConditionRef, OperatorEvent, OrderEvent, OrderRef, PaymentEvent, PaymentRef,
    PrivacyEvent, RequestRef, SessionRef, SubscriptionEvent, SubscriptionRef,
};

/// A type of event.
#[derive(Clone, Debug)]
pub struct EventType {
    /// `order.created`
    pub name: String,
    /// When it is sent, in Markdown.
    pub when: String,
    /// What it happened to first, then its own fields, as they are declared.
    pub fields: Vec<EventField>,
}

/// A field of an event's `data`.
#[derive(Clone, Debug)]
pub struct EventField {
    /// Its name; of an entry of a list `lines[].sku`.
    pub path: String,
    /// In Markdown.
    pub meaning: String,
    /// Its type as JSON Schema has it, without its meaning and what is in it.
    pub schema: Value,
}

/// What the ids of some events are, where it is not what they are in other events.
const OTHER_MEANINGS: [(&str, &str, &str); 3] = [
    (
        "order.superseded",
        "order_id",
        "the id of the order that a session made",
    ),
    ("order.superseded", "shop", "`checkout`"),
    (
        "privacy.erased_again",
        "request_id",
        "the id of the job that did it",
    ),
];

pub fn catalogue() -> Vec<EventType> {
    let mut all = types::<OrderRef, OrderEvent>();
    all.extend(types::<PaymentRef, PaymentEvent>());
    all.extend(types::<SessionRef, CheckoutEvent>());
    all.extend(types::<SubscriptionRef, SubscriptionEvent>());
    all.extend(types::<RequestRef, PrivacyEvent>());
    all.extend(types::<ConditionRef, OperatorEvent>());
    for (name, path, meaning) in OTHER_MEANINGS {
        let fields = all.iter_mut().filter(|event| event.name == name);
        for field in fields.flat_map(|event| &mut event.fields) {
            if field.path == path {
                meaning.clone_into(&mut field.meaning);
            }
        }
    }
    all
}

/// The types of an enum of events, which are about a `Subject`.
fn types<Subject: ToSchema, Events: ToSchema>() -> Vec<EventType> {
    let mut named = Vec::new();
    Events::schemas(&mut named);
    let named: Named = named.into_iter().collect();
    let RefOr::T(Schema::OneOf(OneOf { items, .. })) = Events::schema() else {
        return Vec::new();
    };
    let subject = Subject::schema();
    let variants = items.iter().filter_map(|variant| object(variant, &named));
    variants
        .map(|variant| {
            let mut all = Vec::new();
            let data = variant.properties.get("data");
            for own in [Some(&subject), data].into_iter().flatten() {
                fields("", own, &named, &mut all);
            }
            EventType {
                name: name(variant).unwrap_or_default(),
                when: variant.description.clone().unwrap_or_default(),
                fields: all,
            }
        })
        .collect()
}

/// The types that others refer to.
type Named = HashMap<String, RefOr<Schema>>;

fn object<'a>(schema: &'a RefOr<Schema>, named: &'a Named) -> Option<&'a Object> {
    match schema {
        RefOr::T(Schema::Object(object)) => Some(object),
        RefOr::Ref(reference) => {
            let name = reference.ref_location.rsplit('/').next()?;
            object(named.get(name)?, named)
        }
        RefOr::T(_) => None,
    }
}

/// The name that a variant is tagged with.
fn name(variant: &Object) -> Option<String> {
    let RefOr::T(Schema::Object(tag)) = variant.properties.get("type")? else {
        return None;
    };
    let name = tag.enum_values.as_ref()?.first()?;
    Some(name.as_str()?.to_owned())
}

/// The fields of an object, and after each list those of its entries.
fn fields(before: &str, schema: &RefOr<Schema>, named: &Named, found: &mut Vec<EventField>) {
    let properties = object(schema, named).map(|object| &object.properties);
    for (name, schema) in properties.into_iter().flatten() {
        let path = format!("{before}{name}");
        let mut own = json!(schema);
        let meaning = own["description"].take();
        if let Some(own) = own.as_object_mut() {
            own.retain(|key, _| key == "type" || key == "format" || key == "minimum");
        }
        found.push(EventField {
            meaning: meaning.as_str().unwrap_or_default().to_owned(),
            schema: own,
            path: path.clone(),
        });
        if let RefOr::T(Schema::Array(list)) = schema
            && let ArrayItems::RefOrSchema(items) = &list.items
        {
            fields(&format!("{path}[]."), items, named, found);
        }
    }
}
