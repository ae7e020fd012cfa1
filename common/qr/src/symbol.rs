//! Makes the smallest symbol that has room for a text.
//!
//! The `qrcode` crate writes the bits, adds the error correction and places the modules. Cutting
//! the text into segments and choosing the mask are done here.
//!
//! A text that is not ASCII begins with an ECI designator that says that it is UTF-8. Without it
//! some readers take short texts for Latin-1 or Shift JIS. A text in ASCII, such as every link, is
//! the same in all of these, and has no designator, because some old readers do not know it.

use qrcode::bits::Bits;
use qrcode::{EcLevel, Version, ec};

use super::mask::{self, Line};
use super::segments::{self, capacity};
use super::{Level, QrError};

/// The width of version 40, the largest, in modules.
pub(super) const MAX_WIDTH: u32 = 177;

/// The ECI designator of UTF-8 (AIM ECI, 000026), and the bits that it takes with its mode.
const UTF_8: u32 = 26;
const UTF_8_BITS: usize = 12;

/// A QR code that is ready to be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// The text that a reader of the code gets.
    pub url: String,
    /// 1 to 40.
    pub version: u8,
    pub level: Level,
    pub(super) rows: Vec<Line>,
    pub(super) box_size: usize,
    pub(super) border: usize,
}

impl Symbol {
    pub(super) fn new(
        url: String,
        level: Level,
        box_size: u32,
        border: u32,
    ) -> Result<Self, QrError> {
        let ec_level = EcLevel::from(level);
        let drawn = smallest(url.as_bytes(), ec_level).and_then(|(number, bits)| {
            let version = Version::Normal(number);
            let bits = bits.into_bytes();
            let (codewords, correction) = ec::construct_codewords(&bits, version, ec_level).ok()?;
            let rows = mask::best(version, ec_level, &codewords, &correction);
            Some((u8::try_from(number).ok()?, rows))
        });
        let (version, rows) = drawn.ok_or_else(|| too_long(&url, level))?;
        Ok(Self {
            url,
            version,
            level,
            rows,
            box_size: box_size as usize,
            border: border as usize,
        })
    }

    /// The width in modules, without the border: 21 to 177.
    pub fn width(&self) -> usize {
        self.rows.len()
    }

    /// Whether the module in column `x` of row `y` is dark.
    pub fn is_dark(&self, x: usize, y: usize) -> bool {
        self.rows[y][x / 64] >> (x % 64) & 1 == 1
    }
}

/// Whether there is room for a text in the largest symbol.
pub(super) fn check_room(text: &str, level: Level) -> Result<(), QrError> {
    let found = smallest(text.as_bytes(), level.into());
    found.map(|_| ()).ok_or_else(|| too_long(text, level))
}

fn too_long(text: &str, level: Level) -> QrError {
    QrError::Capacity {
        length: text.len(),
        capacity: capacity(text.as_bytes(), level),
        level,
    }
}

/// The version of the smallest symbol, and its bits. None when the text fits into no symbol.
fn smallest(data: &[u8], ec_level: EcLevel) -> Option<(i16, Bits)> {
    if data.len() > segments::LONGEST {
        return None;
    }
    // Within a group of versions, the length of a segment takes the same number of bits.
    for group in [1..=9, 10..=26, 27..=40] {
        let last = Version::Normal(*group.end());
        let segments = segments::shortest(data, last);
        let needed: usize = segments
            .iter()
            .map(|segment| segment.encoded_len(last))
            .sum();
        let needed = needed + if data.is_ascii() { 0 } else { UTF_8_BITS };
        for number in group {
            let version = Version::Normal(number);
            let mut bits = Bits::new(version);
            if bits.max_len(ec_level).ok()? < needed {
                continue;
            }
            if !data.is_ascii() {
                bits.push_eci_designator(UTF_8).ok()?;
            }
            bits.push_segments(data, segments.iter().copied()).ok()?;
            bits.push_terminator(ec_level).ok()?;
            return Some((number, bits));
        }
    }
    None
}

impl From<Level> for EcLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::L => Self::L,
            Level::M => Self::M,
            Level::Q => Self::Q,
            Level::H => Self::H,
        }
    }
}
