//! A symbol in few bytes, as it is stored: its version, its level and its modules.
//!
//! The first byte has the version in its lower six bits and the level in its upper two. The
//! modules follow, row by row, eight in a byte, with the highest bit first, where 1 is dark. Bits
//! that are left over at the end are 0. The three corners with the finder patterns, 8 by 8
//! modules each, are the same in every symbol and are left out. Up to version 6, which is large
//! enough for the link to any order of the storefront, this takes at most 188 bytes.

use super::mask::Line;
use super::{Level, Symbol};

/// The width of a corner in modules: a finder pattern and the light line beside it.
const CORNER: usize = 8;

/// The finder pattern of the upper left corner, with one number for each row, in which module 0
/// is the lowest bit. The other two corners are its mirror images.
const FINDER: [u64; CORNER] = [0x7f, 0x41, 0x5d, 0x5d, 0x5d, 0x41, 0x7f, 0x00];

const LEVELS: [Level; 4] = [Level::L, Level::M, Level::Q, Level::H];

impl Symbol {
    /// The symbol in bytes, without its link and without the size in which it is drawn.
    pub fn packed(&self) -> Vec<u8> {
        let level = LEVELS.iter().position(|level| *level == self.level);
        let level = level.and_then(|index| u8::try_from(index).ok());
        let mut bytes = vec![level.unwrap_or_default() << 6 | self.version];
        let modules: Vec<bool> = places(self.width())
            .map(|(x, y)| self.is_dark(x, y))
            .collect();
        bytes.extend(modules.chunks(8).map(|eight| {
            let bits = eight.iter().zip(0_u8..);
            bits.fold(0, |byte, (dark, bit)| byte | u8::from(*dark) << (7 - bit))
        }));
        bytes
    }
}

/// The version, the level and the rows that [`Symbol::packed`] wrote. None for bytes that it
/// never writes.
pub(super) fn unpack(bytes: &[u8]) -> Option<(u8, Level, Vec<Line>)> {
    let (first, modules) = bytes.split_first()?;
    let version = first & 0x3f;
    let level = LEVELS[usize::from(first >> 6)];
    if !(1..=40).contains(&version) {
        return None;
    }
    let width = 4 * usize::from(version) + 17;
    if modules.len() != (width * width - 3 * CORNER * CORNER).div_ceil(8) {
        return None;
    }
    let mut rows = with_corners(width);
    for ((x, y), index) in places(width).zip(0..) {
        let dark = modules[index / 8] >> (7 - index % 8) & 1;
        rows[y][x / 64] |= u64::from(dark) << (x % 64);
    }
    Some((version, level, rows))
}

/// The column and row of every module outside the corners.
fn places(width: usize) -> impl Iterator<Item = (usize, usize)> {
    let far = width - CORNER;
    let in_corner =
        move |x, y| (x < CORNER && (y < CORNER || y >= far)) || (x >= far && y < CORNER);
    (0..width)
        .flat_map(move |y| (0..width).map(move |x| (x, y)))
        .filter(move |&(x, y)| !in_corner(x, y))
}

/// Light rows with the three finder patterns.
fn with_corners(width: usize) -> Vec<Line> {
    let mut rows = vec![Line::default(); width];
    let right = width - 7;
    for (y, bits) in FINDER.into_iter().enumerate() {
        rows[y][0] |= bits;
        rows[width - 1 - y][0] |= bits;
        rows[y][right / 64] |= bits << (right % 64);
        // The pattern may cross from one word into the next.
        if right % 64 > 57 {
            rows[y][right / 64 + 1] |= bits >> (64 - right % 64);
        }
    }
    rows
}
