//! The QR code service: makes a picture of a link to an order, a payment or a parcel, or of any
//! text. It reads and writes nothing, so every process can use it.
//!
//! The link keeps its shape whatever an id contains, and an id that would break the link is
//! refused. The symbol of an order link at level H takes 18 µs with the `qrcode` crate and our
//! own choice of the mask. (`fast_qr` takes 90 µs for the symbol, and cannot mix segments.)
//!
//! Orders store the link of their code alone, and its picture is drawn when somebody asks for it.

mod mask;
mod picture;
mod segments;
mod symbol;

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use domain::code::Code;
use domain::order::own::PAGE_CODE;

pub use picture::QrResult;
pub use symbol::Symbol;

/// The longest order id or tracking number, in characters.
pub const ID_CHARS: usize = 500;

/// The widest picture a configuration may lead to, in pixels.
pub const MAX_SIDE: u32 = 20_000;

/// Most readers need boxes of at least so many pixels.
const READABLE_BOX: u32 = 2;

/// As many pixels as a sheet of A4 is wide at 300 dots per inch.
const SHEET: usize = 2480;

/// How much damage a symbol survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Level {
    /// 7 % of the codewords.
    L,
    /// 15 %.
    M,
    /// 25 %.
    Q,
    /// 30 %.
    #[default]
    H,
}

/// The kind of picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = QrFormat)]
#[serde(rename_all = "UPPERCASE")]
pub enum Format {
    Png,
    Svg,
}

/// How codes are made: where their links lead, and how large they are drawn. A value of this type
/// always has settings that work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QrConfig {
    base_url: String,
    box_size: u32,
    border: u32,
    level: Level,
    /// What the pages of the order of these codes ask for.
    page_code: Option<String>,
}

/// A setting that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QrConfigError {
    #[error(
        "base_url must be an http or https address in printable ASCII without query and fragment"
    )]
    BaseUrl,
    #[error("box_size must be 1 to 100 pixels, not {0}")]
    BoxSize(u32),
    #[error("border must be 0 to 100 boxes, not {0}")]
    Border(u32),
    #[error("box_size and border make pictures up to {0} pixels wide, the limit is {MAX_SIDE}")]
    Picture(u32),
}

/// A size that pictures may have, and that is of little use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OddSize {
    #[error("boxes of {0} pixel are too small for most readers of QR codes")]
    Unreadable(u32),
    #[error("the code of an order is a picture of {0} by {0} pixels, wider than a printed sheet")]
    Huge(usize),
}

/// Why a QR code cannot be made. Each of these is answered with HTTP 422, and its text is meant
/// for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QrError {
    /// Nothing is left of the named field without its line breaks.
    #[error("{0} must be a non-empty string")]
    Empty(&'static str),
    #[error("{0} is too long: at most {ID_CHARS} characters")]
    TooLong(&'static str),
    /// The WHATWG URL standard resolves these segments, also when they are spelled `%2E`, so a
    /// browser would open another page.
    #[error("{0} must not be `.` or `..`: they have no place in a link")]
    DotSegment(&'static str),
    #[error("amount must be positive")]
    AmountNotPositive,
    #[error("amount must be a plain decimal number such as 19.90")]
    AmountNotPlain,
    #[error("amount as text must have at most two decimals")]
    AmountDecimals,
    #[error("amount is too large")]
    AmountTooLarge,
    #[error("currency must be three letters such as USD")]
    Currency,
    #[error("currency must be USD, EUR, GBP or MXN")]
    CurrencyNotSupported,
    #[error("kind must be order, payment, package or custom")]
    UnknownKind,
    #[error("error_correction must be L, M, Q or H")]
    UnknownLevel,
    #[error("format must be PNG or SVG")]
    UnknownFormat,
    /// Lengths are in bytes of UTF-8. Texts that consist only of digits, or only of digits,
    /// capitals and ` $%*+-./:`, have a larger capacity than other texts.
    #[error(
        "too long for a QR code: {length} bytes, at most {capacity} such bytes fit at level {level}"
    )]
    Capacity {
        length: usize,
        capacity: usize,
        level: Level,
    },
}

impl QrError {
    /// The application code of `domain::code`.
    pub fn code(self) -> Code {
        match self {
            Self::AmountNotPositive
            | Self::AmountNotPlain
            | Self::AmountDecimals
            | Self::AmountTooLarge => Code::Amount,
            Self::Currency | Self::CurrencyNotSupported => Code::Currency,
            Self::Empty(_)
            | Self::TooLong(_)
            | Self::DotSegment(_)
            | Self::UnknownKind
            | Self::UnknownLevel
            | Self::UnknownFormat
            | Self::Capacity { .. } => Code::Qr,
        }
    }
}

impl QrConfig {
    pub const BOX_SIZE: u32 = 10;
    pub const BORDER: u32 = 4;

    /// `box_size` is the width of a box in pixels, and `border` the number of boxes around the
    /// symbol (readers expect 4). The error lists every mistake.
    pub fn new(
        base_url: &str,
        box_size: u32,
        border: u32,
        level: Level,
    ) -> Result<Self, Vec<QrConfigError>> {
        let mut mistakes = Vec::new();
        if !is_base(base_url) {
            mistakes.push(QrConfigError::BaseUrl);
        }
        if !(1..=100).contains(&box_size) {
            mistakes.push(QrConfigError::BoxSize(box_size));
        }
        if border > 100 {
            mistakes.push(QrConfigError::Border(border));
        }
        if mistakes.is_empty() {
            let widest = (symbol::MAX_WIDTH + 2 * border) * box_size;
            if widest > MAX_SIDE {
                mistakes.push(QrConfigError::Picture(widest));
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        Ok(Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            box_size,
            border,
            level,
            page_code: None,
        })
    }

    /// The same configuration for an order whose pages open with this code alone.
    #[must_use]
    pub fn opened_by(&self, code: Option<&str>) -> Self {
        Self {
            page_code: code.map(ToOwned::to_owned),
            ..self.clone()
        }
    }

    /// The same configuration with another error correction level, for one code.
    #[must_use]
    pub fn at_level(&self, level: Level) -> Self {
        Self {
            level,
            ..self.clone()
        }
    }

    /// The same configuration with another size of the boxes or of the border.
    pub fn sized(
        &self,
        box_size: Option<u32>,
        border: Option<u32>,
    ) -> Result<Self, Vec<QrConfigError>> {
        let box_size = box_size.unwrap_or(self.box_size);
        let border = border.unwrap_or(self.border);
        let sized = Self::new(&self.base_url, box_size, border, self.level)?;
        Ok(sized.opened_by(self.page_code.as_deref()))
    }

    /// What is odd about the size of pictures, judged by the code of an order.
    pub fn odd_size(&self) -> Option<OddSize> {
        const ORDER: &str = "5000000000001000";
        if self.box_size < READABLE_BOX {
            return Some(OddSize::Unreadable(self.box_size));
        }
        let side = self.order(ORDER).ok()?.side();
        (side > SHEET).then_some(OddSize::Huge(side))
    }

    /// The code of an order: a link to `/orders/<order_id>/track`.
    pub fn order(&self, order_id: &str) -> Result<Symbol, QrError> {
        self.symbol(self.order_page(order_id)?)
    }

    /// The link alone, for which there is room in a code.
    pub fn order_link(&self, order_id: &str) -> Result<String, QrError> {
        self.with_room(self.order_page(order_id)?)
    }

    fn order_page(&self, order_id: &str) -> Result<String, QrError> {
        let order_id = segment("order_id", order_id)?;
        let code = self.code('?');
        Ok(format!("{}/orders/{order_id}/track{code}", self.base_url))
    }

    /// The code of a payment: a link to `/pay/<order_id>?amount=<two
    /// decimals>&currency=<currency>`. The amount is in hundredths of the currency's unit, see
    /// [`parse_amount`].
    pub fn payment(
        &self,
        order_id: &str,
        amount_hundredths: i64,
        currency: &str,
    ) -> Result<Symbol, QrError> {
        let order_id = segment("order_id", order_id)?;
        if amount_hundredths <= 0 {
            return Err(QrError::AmountNotPositive);
        }
        if currency.len() != 3 || !currency.bytes().all(|b| b.is_ascii_alphabetic()) {
            return Err(QrError::Currency);
        }
        let currency = currency.to_ascii_uppercase();
        let (units, hundredths) = (amount_hundredths / 100, amount_hundredths % 100);
        let code = self.code('&');
        self.symbol(format!(
            "{}/pay/{order_id}?amount={units}.{hundredths:02}&currency={currency}{code}",
            self.base_url
        ))
    }

    fn code(&self, separator: char) -> String {
        let code = self.page_code.as_ref();
        code.map_or_else(String::new, |code| format!("{separator}{PAGE_CODE}={code}"))
    }

    /// The code of a parcel: a link to `/tracking/<tracking_number>`.
    pub fn package(&self, tracking_number: &str) -> Result<Symbol, QrError> {
        self.symbol(self.package_page(tracking_number)?)
    }

    /// The link alone, for which there is room in a code.
    pub fn package_link(&self, tracking_number: &str) -> Result<String, QrError> {
        self.with_room(self.package_page(tracking_number)?)
    }

    fn package_page(&self, tracking_number: &str) -> Result<String, QrError> {
        let tracking_number = segment("tracking_number", tracking_number)?;
        Ok(format!("{}/tracking/{tracking_number}", self.base_url))
    }

    /// The code of any text, which stays unchanged with its line breaks.
    pub fn custom(&self, data: &str) -> Result<Symbol, QrError> {
        if data.is_empty() {
            return Err(QrError::Empty("data"));
        }
        self.symbol(data.to_owned())
    }

    /// The code of a link that was stored, in the size and at the level of this configuration. If there is no room for
    /// it at this level, which may have been a lower one when the link was made, it is drawn at the highest one that has.
    pub fn of_link(&self, link: &str) -> Option<Symbol> {
        let levels = [self.level, Level::Q, Level::M, Level::L];
        let mut drawn = levels
            .iter()
            .map(|level| self.at_level(*level).custom(link));
        drawn.find_map(Result::ok)
    }

    fn with_room(&self, link: String) -> Result<String, QrError> {
        symbol::check_room(&link, self.level)?;
        Ok(link)
    }

    fn symbol(&self, url: String) -> Result<Symbol, QrError> {
        Symbol::new(url, self.level, self.box_size, self.border)
    }
}

/// Reads a decimal text as hundredths, without rounding. `20`, `19.9` and `19.900` are amounts;
/// `19.905` and `2e1` are refused.
pub fn parse_amount(text: &str) -> Result<i64, QrError> {
    let (sign, number) = match text.strip_prefix('-') {
        Some(number) => (-1, number),
        None => (1, text),
    };
    let (units, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_plain(units) || !is_plain(decimals) {
        return Err(QrError::AmountNotPlain);
    }
    let decimals = decimals.trim_end_matches('0');
    if decimals.len() > 2 {
        return Err(QrError::AmountDecimals);
    }
    let hundredths: i64 = format!("{units}{decimals:0<2}")
        .parse()
        .map_err(|_| QrError::AmountTooLarge)?;
    Ok(sign * hundredths)
}

/// Reads a JSON number as hundredths, digit by digit: `1e2` is 100.00. JSON numbers often come
/// from floats, so a number with more decimals is rounded, half away from zero:
/// `0.30000000000000004` is 0.30, and `19.999` is 20.00.
pub fn round_amount(number: &str) -> Result<i64, QrError> {
    /// No amount of hundredths has this many digits.
    const TOO_MANY: i64 = 20;

    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => (-1, number),
        None => (1, number),
    };
    let (digits, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (units, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{units}{decimals}");
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(QrError::AmountNotPlain);
    }
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    // How many of the significant digits are left of the point when the number is written in
    // hundredths.
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let zeros = length(&digits) - length(significant);
    let left = (length(units) - zeros).saturating_add(exponent(power));
    let left = left.saturating_add(2);
    let kept = match left {
        ..0 => return Ok(0),
        TOO_MANY.. => return Err(QrError::AmountTooLarge),
        kept => usize::try_from(kept).map_err(|_| QrError::AmountTooLarge)?,
    };
    let (whole, rest) = significant.split_at(kept.min(significant.len()));
    let whole: i64 = format!("0{whole:0<kept$}")
        .parse()
        .map_err(|_| QrError::AmountTooLarge)?;
    let is_half = rest.starts_with(|digit: char| digit >= '5');
    let hundredths = whole.checked_add(i64::from(is_half));
    Ok(sign * hundredths.ok_or(QrError::AmountTooLarge)?)
}

/// The exponent of a JSON number. An exponent beyond all amounts is cut to one that is still
/// beyond them.
fn exponent(power: &str) -> i64 {
    const FAR: i64 = i64::MAX / 2;
    let far = if power.starts_with('-') { -FAR } else { FAR };
    power
        .parse()
        .map_or(far, |power: i64| power.clamp(-FAR, FAR))
}

/// An id as one segment of a path: without line breaks, and with all characters percent-encoded
/// except the unreserved ones of RFC 3986.
fn segment(field: &'static str, id: &str) -> Result<String, QrError> {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    let id = id.replace(['\r', '\n'], "");
    match id.as_str() {
        "" => Err(QrError::Empty(field)),
        "." | ".." => Err(QrError::DotSegment(field)),
        _ if id.chars().count() > ID_CHARS => Err(QrError::TooLong(field)),
        _ => Ok(utf8_percent_encode(&id, RESERVED).to_string()),
    }
}

/// Whether a text can be the base of all links. It must be ASCII, because readers of QR codes
/// guess the encoding of anything else.
fn is_base(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        && rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
        && rest
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"?#\"<>\\".contains(&b))
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::L => "L",
            Self::M => "M",
            Self::Q => "Q",
            Self::H => "H",
        })
    }
}

impl FromStr for Level {
    type Err = QrError;

    fn from_str(text: &str) -> Result<Self, QrError> {
        match text {
            "L" => Ok(Self::L),
            "M" => Ok(Self::M),
            "Q" => Ok(Self::Q),
            "H" => Ok(Self::H),
            _ => Err(QrError::UnknownLevel),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Png => "PNG",
            Self::Svg => "SVG",
        })
    }
}

impl FromStr for Format {
    type Err = QrError;

    fn from_str(text: &str) -> Result<Self, QrError> {
        match text {
            "PNG" => Ok(Self::Png),
            "SVG" => Ok(Self::Svg),
            _ => Err(QrError::UnknownFormat),
        }
    }
}
