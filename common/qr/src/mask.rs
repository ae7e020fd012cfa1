//! Chooses the mask of a symbol: of the eight patterns, the one that leaves the fewest shapes
//! that confuse a reader.
//!
//! A mask inverts modules of the data, so a symbol under a mask is the symbol without data under
//! that mask, with the data's dark modules inverted. The symbols without data are drawn once for
//! each version and level. The data is then drawn once for a symbol, and combined with each of
//! the eight, 64 modules at a time.
//!
//! With the `qrcode` crate's own choice a symbol takes 740 µs instead of 18. Besides, its 16-bit sums overflow for
//! a large symbol whose text was made to cancel a mask, and anybody could request such a symbol.

use std::sync::OnceLock;

use qrcode::canvas::{Canvas, MaskPattern};
use qrcode::{Color, EcLevel, Version};

/// One line of modules, where 1 is dark. Module `i` is bit `i % 64` of word `i / 64`.
pub(super) type Line<const WORDS: usize = 3> = [u64; WORDS];

const MASKS: [MaskPattern; 8] = [
    MaskPattern::Checkerboard,
    MaskPattern::HorizontalLines,
    MaskPattern::VerticalLines,
    MaskPattern::DiagonalLines,
    MaskPattern::LargeCheckerboard,
    MaskPattern::Fields,
    MaskPattern::Diamonds,
    MaskPattern::Meadow,
];

/// The largest version whose lines are a single word each, with the eight light modules around
/// the symbol that [`finder_penalty`] sees. Every link to an order of the storefront fits into
/// it, so symbols without data are kept up to here: half a MiB at most.
const NARROW: usize = 9;

/// The symbols without data, by version and level.
static KEPT: [[OnceLock<Empty<1>>; 4]; NARROW] = [const { [const { OnceLock::new() }; 4] }; NARROW];

/// The rows of the symbol with these codewords, under the mask with the lowest penalty.
pub(super) fn best(
    version: Version,
    level: EcLevel,
    codewords: &[u8],
    correction: &[u8],
) -> Vec<Line> {
    let empty = || Empty::of(version, level, codewords.len(), correction.len());
    let wider_than_the_smallest = version.width().unsigned_abs() - 21;
    match KEPT.get(usize::from(wider_than_the_smallest) / 4) {
        Some(levels) => {
            let empty = levels[level as usize].get_or_init(empty);
            let rows = empty.best(codewords, correction);
            rows.into_iter().map(|[word]| [word, 0, 0]).collect()
        }
        None => Empty::<3>::of(version, level, codewords.len(), correction.len())
            .best(codewords, correction),
    }
}

/// A symbol without data.
struct Empty<const WORDS: usize> {
    canvas: Canvas,
    unmasked: Modules<WORDS>,
    masked: [Modules<WORDS>; 8],
}

impl<const WORDS: usize> Empty<WORDS> {
    fn of(version: Version, level: EcLevel, codewords: usize, correction: usize) -> Self {
        let mut canvas = Canvas::new(version, level);
        canvas.draw_all_functional_patterns();
        let mut unmasked = canvas.clone();
        unmasked.draw_data(&vec![0; codewords], &vec![0; correction]);
        let masked = MASKS.map(|mask| {
            let mut masked = unmasked.clone();
            masked.apply_mask(mask);
            Modules::of(masked)
        });
        Empty {
            canvas,
            unmasked: Modules::of(unmasked),
            masked,
        }
    }

    fn best(&self, codewords: &[u8], correction: &[u8]) -> Vec<Line<WORDS>> {
        let mut canvas = self.canvas.clone();
        canvas.draw_data(codewords, correction);
        let data = Modules::of(canvas).xor(&self.unmasked);
        let mut best = (u32::MAX, Vec::new());
        for masked in &self.masked {
            let symbol = masked.xor(&data);
            let penalty = symbol.penalty();
            if penalty < best.0 {
                best = (penalty, symbol.rows);
            }
        }
        best.1
    }
}

/// The modules of a symbol, row by row and column by column.
struct Modules<const WORDS: usize> {
    rows: Vec<Line<WORDS>>,
    columns: Vec<Line<WORDS>>,
}

impl<const WORDS: usize> Modules<WORDS> {
    fn of(canvas: Canvas) -> Self {
        let modules = canvas.into_colors();
        let width = modules.len().isqrt();
        let (mut rows, mut columns) = (vec![[0; WORDS]; width], vec![[0; WORDS]; width]);
        for (y, row) in modules.chunks_exact(width).enumerate() {
            for (x, color) in row.iter().enumerate() {
                let dark = u64::from(*color == Color::Dark);
                rows[y][x / 64] |= dark << (x % 64);
                columns[x][y / 64] |= dark << (y % 64);
            }
        }
        Modules { rows, columns }
    }

    /// The modules that differ are dark.
    fn xor(&self, other: &Self) -> Self {
        let of = |lines: &[Line<WORDS>], others: &[Line<WORDS>]| {
            let pairs = lines.iter().zip(others);
            pairs
                .map(|(line, other)| std::array::from_fn(|i| line[i] ^ other[i]))
                .collect()
        };
        Modules {
            rows: of(&self.rows, &other.rows),
            columns: of(&self.columns, &other.columns),
        }
    }

    /// The penalty of ISO/IEC 18004, section 7.8.3.1. A symbol with a lower penalty is easier to
    /// read.
    fn penalty(&self) -> u32 {
        let width = self.rows.len();
        let mut penalty = 0;
        for line in self.rows.iter().chain(&self.columns) {
            penalty += run_penalty(line, width) + finder_penalty(line);
        }
        for pair in self.rows.windows(2) {
            let same: Line<WORDS> = std::array::from_fn(|i| !(pair[0][i] ^ pair[1][i]));
            let blocks = and(and(same, ahead(same, 1)), alike(&pair[0], width));
            penalty += 3 * ones(blocks);
        }
        let dark: u32 = self.rows.iter().map(|&row| ones(row)).sum();
        let all = u32::try_from(width * width).unwrap_or(u32::MAX);
        // 10 for each whole 5 % by which the share of dark modules differs from one half.
        penalty + 10 * ((20 * dark).abs_diff(10 * all) / all)
    }
}

/// 3 for five modules of one colour in a row, and 1 for each further one.
fn run_penalty<const WORDS: usize>(line: &Line<WORDS>, width: usize) -> u32 {
    let pairs = alike(line, width);
    let triples = and(pairs, ahead(pairs, 1));
    let fives = and(triples, ahead(triples, 2));
    let runs = and(fives, ahead(fives, 1).map(|word| !word));
    ones(fives) + 2 * ones(runs)
}

/// 40 for dark-light-dark-dark-dark-light-dark with four light modules before it, and 40 with
/// four after it. The modules around the symbol count as light.
fn finder_penalty<const WORDS: usize>(line: &Line<WORDS>) -> u32 {
    let dark = behind(*line, 4);
    let light = dark.map(|word| !word);
    let four = and(light, ahead(light, 1));
    let four = and(four, ahead(four, 2));
    let mut finder = and(dark, ahead(light, 1));
    for (distance, color) in [(2, dark), (3, dark), (4, dark), (5, light), (6, dark)] {
        finder = and(finder, ahead(color, distance));
    }
    40 * (ones(and(finder, behind(four, 4))) + ones(and(finder, ahead(four, 7))))
}

/// Bit `i` is set when the modules `i` and `i + 1` of the line have the same colour.
fn alike<const WORDS: usize>(line: &Line<WORDS>, width: usize) -> Line<WORDS> {
    let next = ahead(*line, 1);
    std::array::from_fn(|i| {
        let bits = (width - 1).saturating_sub(64 * i).min(64);
        let inside = if bits == 64 {
            u64::MAX
        } else {
            (1 << bits) - 1
        };
        !(line[i] ^ next[i]) & inside
    })
}

/// The line in which bit `i` is bit `i + by` of the given line. `by` is 1 to 63.
fn ahead<const WORDS: usize>(line: Line<WORDS>, by: u32) -> Line<WORDS> {
    let word = |i: usize| line.get(i).copied().unwrap_or_default();
    std::array::from_fn(|i| word(i) >> by | word(i + 1) << (64 - by))
}

/// The line in which bit `i` is bit `i - by` of the given line. `by` is 1 to 63.
fn behind<const WORDS: usize>(line: Line<WORDS>, by: u32) -> Line<WORDS> {
    let word = |i: usize| line.get(i).copied().unwrap_or_default();
    std::array::from_fn(|i| word(i) << by | word(i.wrapping_sub(1)) >> (64 - by))
}

fn and<const WORDS: usize>(a: Line<WORDS>, b: Line<WORDS>) -> Line<WORDS> {
    std::array::from_fn(|i| a[i] & b[i])
}

fn ones<const WORDS: usize>(line: Line<WORDS>) -> u32 {
    line.iter().map(|word| word.count_ones()).sum()
}

#[cfg(test)]
#[path = "../tests/unit/mask.rs"]
mod tests;
