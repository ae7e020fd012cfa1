//! Where a page of orders ends. The fuzzing includes this file.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Serialize, Serializer};

/// The place of an order in the list. Clients see it as a text of no meaning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// When it was ordered, in milliseconds since 1970.
    pub at: i64,
    pub shop: String,
    pub id: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cursor { at, shop, id } = self;
        f.write_str(&URL_SAFE_NO_PAD.encode(format!("{at}.{id}.{shop}")))
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not the `next` of a page of orders")]
pub struct NotACursor;

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let place = URL_SAFE_NO_PAD.decode(text).map_err(|_| NotACursor)?;
        let place = String::from_utf8(place).map_err(|_| NotACursor)?;
        let mut parts = place.splitn(3, '.');
        let (at, id) = (parts.next(), parts.next());
        let number = |part: Option<&str>| part.and_then(|it| it.parse().ok()).ok_or(NotACursor);
        let shop = parts.next().ok_or(NotACursor)?;
        if shop.contains('\0') {
            return Err(NotACursor);
        }
        Ok(Cursor {
            at: number(at)?,
            id: number(id)?,
            shop: shop.to_owned(),
        })
    }
}
