//! Cuts a text into segments of digits, of capitals and of bytes, so that it takes the fewest
//! bits.
//!
//! The `qrcode` crate's own way of cutting is greedy: it makes some texts longer than plain bytes
//! would be, and fails for texts that would fit. It also takes pairs of UTF-8 bytes for Shift
//! JIS, which a reader then shows as other characters.

use qrcode::Version;
use qrcode::optimize::Segment;
use qrcode::types::Mode;

use super::Level;

/// The most bytes that any symbol can have: digits in version 40 at level L.
pub(super) const LONGEST: usize = 7089;

/// How many bytes fit of a text of the same kind as `data`, from ISO/IEC 18004, table 7, version
/// 40. The designator of a text that is not ASCII takes the place of one byte.
pub(super) fn capacity(data: &[u8], level: Level) -> usize {
    let by_mode = match level {
        Level::L => [LONGEST, 4296, 2953],
        Level::M => [5596, 3391, 2331],
        Level::Q => [3993, 2420, 1663],
        Level::H => [3057, 1852, 1273],
    };
    let fitting = |mode: &usize| {
        data.iter()
            .all(|&byte| sixths(MODES[*mode], byte).is_some())
    };
    by_mode[(0..3).find(fitting).unwrap_or(2)] - usize::from(!data.is_ascii())
}

/// The modes, the densest first. Kanji is not used, because the texts are UTF-8.
const MODES: [Mode; 3] = [Mode::Numeric, Mode::Alphanumeric, Mode::Byte];

/// What a byte costs in a mode, in sixths of a bit. None when the mode cannot have this byte.
fn sixths(mode: Mode, byte: u8) -> Option<usize> {
    match mode {
        Mode::Numeric => byte.is_ascii_digit().then_some(20),
        Mode::Alphanumeric => {
            let holds =
                byte.is_ascii_digit() || byte.is_ascii_uppercase() || b" $%*+-./:".contains(&byte);
            holds.then_some(33)
        }
        Mode::Byte => Some(48),
        Mode::Kanji => None,
    }
}

/// The shortest way to write `data` at a version, found as a shortest path over pairs of (bytes
/// written, mode of the open segment).
pub(super) fn shortest(data: &[u8], version: Version) -> Vec<Segment> {
    const NEVER: usize = usize::MAX / 2;
    let headers =
        MODES.map(|mode| 6 * (version.mode_bits_count() + mode.length_bits_count(version)));
    // ready[m] is the cost of the bytes so far with a segment of mode m open.
    let mut ready = headers;
    let mut written = headers;
    // before[i][m] is the mode of byte i when byte i + 1 is in mode m.
    let mut before = Vec::with_capacity(data.len());
    for &byte in data {
        written = std::array::from_fn(|mode| {
            sixths(MODES[mode], byte).map_or(NEVER, |cost| ready[mode] + cost)
        });
        ready = written;
        let mut from = [0, 1, 2];
        for (next, header) in headers.iter().enumerate() {
            for (mode, cost) in written.iter().enumerate() {
                let switched = cost.div_ceil(6) * 6 + header;
                if switched < ready[next] {
                    (ready[next], from[next]) = (switched, mode);
                }
            }
        }
        before.push(from);
    }

    let mut mode = (0..3).min_by_key(|&mode| written[mode]).unwrap_or(2);
    let mut segments: Vec<Segment> = Vec::new();
    for i in (0..data.len()).rev() {
        match segments.last_mut() {
            Some(segment) if segment.mode == MODES[mode] => segment.begin = i,
            _ => segments.push(Segment {
                mode: MODES[mode],
                begin: i,
                end: i + 1,
            }),
        }
        if i > 0 {
            mode = before[i - 1][mode];
        }
    }
    segments.reverse();
    segments
}
