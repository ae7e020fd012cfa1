//! Money: a whole number of minor units of a currency. An amount is read exactly or refused.
//! Nothing here rounds, and nothing is ever a float.

use std::cmp::Ordering;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An ISO 4217 code: three upper-case ASCII letters. It is not checked whether such a currency
/// exists; which currencies can be paid in is decided by a setting.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency([u8; 3]);

impl Currency {
    /// Reads a code in either case, because storefronts write `USD` and payment providers `usd`.
    pub fn parse(code: &str) -> Option<Self> {
        let code: [u8; 3] = code.as_bytes().try_into().ok()?;
        code.iter()
            .all(u8::is_ascii_alphabetic)
            .then(|| Self(code.map(|letter| letter.to_ascii_uppercase())))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a currency is three ASCII letters")
    }

    /// How many decimals one unit of the currency has (ISO 4217, list one). Storefronts write
    /// amounts with these decimals, and [`Money`] counts in them.
    pub fn exponent(self) -> u32 {
        match &self.0 {
            b"BIF" | b"CLP" | b"DJF" | b"GNF" | b"ISK" | b"JPY" | b"KMF" | b"KRW" | b"PYG"
            | b"RWF" | b"UGX" | b"UYI" | b"VND" | b"VUV" | b"XAF" | b"XOF" | b"XPF" => 0,
            b"BHD" | b"IQD" | b"JOD" | b"KWD" | b"LYD" | b"OMR" | b"TND" => 3,
            b"CLF" | b"UYW" => 4,
            _ => 2,
        }
    }

    /// How many decimals the payment provider counts in. These are the currencies for which it
    /// does not follow ISO 4217 (the provider's documentation, Supported currencies, as of 2026):
    ///
    /// - ISK and UGX no longer have decimals, but the provider still counts in hundredths, which
    ///   are always whole units: 5 kronur are 500 (Special cases).
    /// - MGA has two decimals in ISO 4217 and five parts to the unit, but the provider counts in
    ///   whole units.
    ///
    /// The provider's other zero-decimal currencies (BIF, CLP, DJF, GNF, JPY, KMF, KRW, PYG, RWF,
    /// VND, VUV, XAF, XOF, XPF) and its three-decimal currencies (BHD, JOD, KWD, OMR, TND) are as
    /// in ISO 4217. The provider pays out HUF and TWD in whole units, but their payments are in
    /// hundredths as in ISO 4217, and payouts do not concern us.
    pub fn provider_exponent(self) -> u32 {
        match &self.0 {
            b"ISK" | b"UGX" => 2,
            b"MGA" => 0,
            _ => self.exponent(),
        }
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        Currency::parse(&code).ok_or_else(|| D::Error::custom("is no currency"))
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The amount as a decimal in units of the currency with this code, or the bare minor units when
/// the code is no currency.
pub fn decimal(minor: i64, code: &str) -> String {
    match Currency::parse(code) {
        Some(currency) => Money { minor, currency }.to_string(),
        None => minor.to_string(),
    }
}

/// Displayed as a decimal with the currency's number of decimals, such as `403.00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Money {
    pub minor: i64,
    pub currency: Currency,
}

/// Why a text is not an amount. It never quotes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    #[error("is not a decimal amount")]
    NotADecimal,
    #[error("has more decimals than its currency")]
    TooPrecise,
    #[error("is out of range")]
    OutOfRange,
}

impl Money {
    /// Converts from the payment provider's minor units, exactly: the provider's 10000 of
    /// Icelandic kronur are 100 of ours. An amount that the currency does not have, such as the
    /// provider's 10050 kronur, is refused.
    pub fn of_provider(minor: i64, currency: Currency) -> Result<Self, AmountError> {
        let (ours, theirs) = (currency.exponent(), currency.provider_exponent());
        let parts = 10_i64.pow(theirs.abs_diff(ours));
        let minor = match theirs.cmp(&ours) {
            Ordering::Greater if minor % parts != 0 => return Err(AmountError::TooPrecise),
            Ordering::Greater => minor / parts,
            Ordering::Equal | Ordering::Less => {
                minor.checked_mul(parts).ok_or(AmountError::OutOfRange)?
            }
        };
        Ok(Money { minor, currency })
    }

    /// Reads `403.00`, `-5` or `0.5`. Decimals beyond the currency's own must be zeros: `1000.00`
    /// is an amount of yen, and `1000.50` is not.
    pub fn parse_decimal(text: &str, currency: Currency) -> Result<Self, AmountError> {
        let (negative, whole, decimals) = decimal_parts(text).ok_or(AmountError::NotADecimal)?;
        let exponent = currency.exponent() as usize;
        let (kept, excess) = decimals.split_at(decimals.len().min(exponent));
        if excess.bytes().any(|digit| digit != b'0') {
            return Err(AmountError::TooPrecise);
        }

        let padding = std::iter::repeat_n(b'0', exponent - kept.len());
        let mut minor = 0_i64;
        for digit in whole.bytes().chain(kept.bytes()).chain(padding) {
            // A negative amount is counted downwards, because `i64::MIN` has no positive
            // counterpart.
            let digit = i64::from(digit - b'0');
            minor = minor
                .checked_mul(10)
                .and_then(|minor| minor.checked_add(if negative { -digit } else { digit }))
                .ok_or(AmountError::OutOfRange)?;
        }
        Ok(Self { minor, currency })
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.minor < 0 { "-" } else { "" };
        let minor = self.minor.unsigned_abs();
        match self.currency.exponent() {
            0 => write!(f, "{sign}{minor}"),
            exponent => {
                let unit = 10_u64.pow(exponent);
                let width = exponent as usize;
                write!(f, "{sign}{}.{:0width$}", minor / unit, minor % unit)
            }
        }
    }
}

/// True for a plain decimal: digits, optionally a minus before them, and optionally a point with
/// digits after it. Exponents, a plus and separators are not allowed.
pub fn is_decimal(text: &str) -> bool {
    decimal_parts(text).is_some()
}

/// Whether there is a minus, the digits before the point, and the digits after it.
fn decimal_parts(text: &str) -> Option<(bool, &str, &str)> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (negative, amount) = match text.strip_prefix('-') {
        Some(amount) => (true, amount),
        None => (false, text),
    };
    match amount.split_once('.') {
        Some((whole, decimals)) if digits(whole) && digits(decimals) => {
            Some((negative, whole, decimals))
        }
        None if digits(amount) => Some((negative, amount, "")),
        _ => None,
    }
}
