//! One field of a stored body, as it came, for an operator who has a reason. The audit has who saw which field
//! and why before it is shown. Every other view of a body is without personal data.

use domain::job::JobId;
use domain::names::{Unknown, unknown};
use serde_json::{Value, json};
use store::audit::By;
use store::deliveries;
use store::jobs;
use store::sql::{self, Db};
use strum::{EnumString, IntoStaticStr, VariantArray};

/// Why somebody needs a field. A reason in their own words could name somebody, and stay in the audit for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case", parse_err_ty = Unknown, parse_err_fn = unknown::<Reason>)]
pub enum Reason {
    /// The customer has asked.
    Customer,
    /// A payment is refused or disputed.
    Payment,
    /// A parcel cannot be delivered.
    Parcel,
    /// A fault is traced.
    Fault,
}

impl Reason {
    pub const ALL: [Reason; 4] = *Reason::VARIANTS.as_array().unwrap();

    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Reason::Customer => "the customer has asked",
            Reason::Payment => "a payment is refused or disputed",
            Reason::Parcel => "a parcel cannot be delivered",
            Reason::Fault => "a fault is traced",
        }
    }
}

/// Why a field is not shown.
#[derive(Debug, thiserror::Error)]
pub enum NotShown {
    #[error("there is no such job")]
    Unknown,
    #[error("its body is not kept any more, or is no JSON")]
    NoBody,
    #[error(
        "a field is named by its path in the body, such as /shipping_address/city or \
         /line_items/0/name"
    )]
    NotAPath,
    #[error("its body has no such field")]
    NoField,
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// The longest path, in bytes.
const LONGEST: usize = 200;

/// A JSON pointer (RFC 6901) of names that are none of a person's.
fn is_path(text: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_/".contains(&byte);
    text.len() <= LONGEST && text.starts_with('/') && text.bytes().all(is_plain)
}

/// The value of a field, after the audit has noted who sees it.
pub async fn show(
    db: &Db,
    by: By<'_>,
    id: JobId,
    path: &str,
    reason: Reason,
) -> Result<Value, NotShown> {
    if !is_path(path) {
        return Err(NotShown::NotAPath);
    }
    let job = jobs::show(db, id).await?.ok_or(NotShown::Unknown)?;
    let body = deliveries::body(db, id).await?.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).map_err(|_| NotShown::NoBody)?;
    let value = body.pointer(path).ok_or(NotShown::NoField)?;
    let details = json!({"kind": job.kind, "field": path, "reason": reason.into_str()});
    let (shop, mut tx) = (job.shop.as_deref(), db.begin().await?);
    by.note_of_shop(&mut tx, shop, "job.field_shown", id, details)
        .await?;
    tx.commit().await?;
    Ok(value.clone())
}

#[cfg(test)]
#[path = "../tests/unit/fields.rs"]
mod tests;
