//! Lines that repeat as a zlib stream (RFC 1950, RFC 1951): the pixels of a QR
//! code have few different bytes, and each line comes `box_size` times.
//!
//! One block: a line is literals under Huffman codes made for this picture,
//! its repetitions are copies at the distance of one line. An order link takes
//! 19 µs and 1.1 kB, drawing included; the compressors of the `png` crate take
//! 27 µs for 3.6 kB or 350 µs for 0.9 kB.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The symbol behind the last byte; the lengths of copies follow it.
const END: usize = 256;
const SYMBOLS: usize = 286;

/// The lowest `len` bits of `bits`, lowest first.
#[derive(Clone, Copy, Default)]
struct Code {
    bits: u32,
    len: u32,
}

/// `lines` holds lines of `line_len` bytes (3 to 32768), each to be written as
/// often as `times` says, at least once.
pub(super) fn zlib(lines: &[u8], line_len: usize, times: &[usize]) -> Vec<u8> {
    let bands = || lines.chunks_exact(line_len).zip(times.iter().copied());

    let mut counts = [0; SYMBOLS];
    counts[END] = 1;
    for (line, times) in bands() {
        for &byte in line {
            counts[usize::from(byte)] += 1;
        }
        for len in copies((times - 1) * line_len) {
            counts[length_symbol(len).0] += 1;
        }
    }
    let lengths = code_lengths(counts);
    let codes = codes(&lengths);
    let (distance, distance_rest) = distance_symbol(line_len);

    // Deflate, 32 kB window, no dictionary.
    let mut out = Bits {
        bytes: vec![0x78, 0x01],
        ..Bits::default()
    };
    write_header(&mut out, &lengths, distance);
    for (line, times) in bands() {
        for &byte in line {
            out.push(codes[usize::from(byte)]);
        }
        for len in copies((times - 1) * line_len) {
            let (length, length_rest) = length_symbol(len);
            out.push(codes[length]);
            out.push(length_rest);
            // There is one distance, its code is one bit.
            out.push(Code { bits: 0, len: 1 });
            out.push(distance_rest);
        }
    }
    out.push(codes[END]);
    let mut stream = out.finish();
    stream.extend(adler32(bands()).to_be_bytes());
    stream
}

/// Cuts a copy of `len` bytes into the lengths deflate has, 3 to 258.
fn copies(mut len: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        // Nothing shorter than 3 may be left over.
        let now = if len > 258 { 258.min(len - 3) } else { len };
        len -= now;
        (now > 0).then_some(now)
    })
}

/// RFC 1951 section 3.2.5: the symbol of a length and what is written after it.
fn length_symbol(len: usize) -> (usize, Code) {
    match len - 3 {
        255 => (285, Code::default()),
        rest @ 0..8 => (257 + rest, Code::default()),
        rest => {
            let extra = rest.ilog2() - 2;
            (
                257 + ((extra as usize) << 2) + (rest >> extra),
                Code::low(rest, extra),
            )
        }
    }
}

/// The same for a distance.
fn distance_symbol(distance: usize) -> (usize, Code) {
    match distance - 1 {
        rest @ 0..4 => (rest, Code::default()),
        rest => {
            let extra = rest.ilog2() - 1;
            (
                ((extra as usize) << 1) + (rest >> extra),
                Code::low(rest, extra),
            )
        }
    }
}

/// Huffman's code lengths, at most 15; 0 for a symbol that does not occur. Two
/// or more occur.
fn code_lengths(mut counts: [u32; SYMBOLS]) -> [u8; SYMBOLS] {
    loop {
        let mut heap: BinaryHeap<_> = (0..SYMBOLS)
            .filter(|&symbol| counts[symbol] > 0)
            .map(|symbol| Reverse((counts[symbol], symbol)))
            .collect();
        // Nodes follow the symbols, each above its two children.
        let mut parents = vec![0; SYMBOLS];
        while let (Some(Reverse((a_count, a))), Some(Reverse((b_count, b)))) =
            (heap.pop(), heap.pop())
        {
            let node = parents.len();
            parents.push(0);
            (parents[a], parents[b]) = (node, node);
            heap.push(Reverse((a_count + b_count, node)));
        }
        let mut depths = vec![0u8; parents.len()];
        for node in (0..parents.len() - 1).rev() {
            if parents[node] > 0 {
                depths[node] = depths[parents[node]] + 1;
            }
        }
        if depths.iter().all(|&depth| depth <= 15) {
            return std::array::from_fn(|symbol| depths[symbol]);
        }
        // Flatter counts make a flatter tree.
        counts = counts.map(|count| count.div_ceil(2));
    }
}

/// RFC 1951 section 3.2.2: the codes that belong to the lengths.
fn codes(lengths: &[u8]) -> Vec<Code> {
    let mut codes = vec![Code::default(); lengths.len()];
    let mut next = 0u32;
    for len in 1..=15 {
        next <<= 1;
        for (code, _) in codes.iter_mut().zip(lengths).filter(|(_, l)| **l == len) {
            // Huffman codes are written highest bit first.
            let len = u32::from(len);
            *code = Code {
                bits: next.reverse_bits() >> (32 - len),
                len,
            };
            next += 1;
        }
    }
    codes
}

/// RFC 1951 section 3.2.7: the last block, with these codes.
fn write_header(out: &mut Bits, lengths: &[u8], distance: usize) {
    const ORDER: [usize; 19] = [
        16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
    ];
    // How the lengths themselves are coded: every length, and 17 and 18 for
    // runs of zeros. 14 codes of 4 bits and 4 of 5 use up all there are.
    let mut length_lengths = [4; 19];
    length_lengths[12..=15].fill(5);
    length_lengths[16] = 0;
    let length_codes = codes(&length_lengths);

    out.push(Code {
        bits: 0b101,
        len: 3,
    });
    out.push(Code::low(SYMBOLS - 257, 5));
    out.push(Code::low(distance, 5));
    out.push(Code::low(ORDER.len() - 4, 4));
    for symbol in ORDER {
        out.push(Code {
            bits: u32::from(length_lengths[symbol]),
            len: 3,
        });
    }

    let mut all = lengths.to_vec();
    all.resize(SYMBOLS + distance, 0);
    all.push(1);
    for run in all.chunk_by(|a, b| a == b) {
        let mut left = run.len();
        while run[0] == 0 && left >= 3 {
            let zeros = left.min(138);
            left -= zeros;
            let (symbol, rest) = match zeros {
                11.. => (18, Code::low(zeros - 11, 7)),
                _ => (17, Code::low(zeros - 3, 3)),
            };
            out.push(length_codes[symbol]);
            out.push(rest);
        }
        for _ in 0..left {
            out.push(length_codes[usize::from(run[0])]);
        }
    }
}

/// RFC 1950 section 8.2, a line at a time.
fn adler32<'a>(bands: impl Iterator<Item = (&'a [u8], usize)>) -> u32 {
    const PRIME: u64 = 65521;
    let (mut a, mut b) = (1, 0);
    for (line, times) in bands {
        // What the line alone adds to a, and to b if a were 0.
        let (sum, sums) = line.iter().fold((0, 0), |(sum, sums), &byte| {
            let sum = sum + u64::from(byte);
            (sum, sums + sum)
        });
        for _ in 0..times {
            b = (b + line.len() as u64 * a + sums) % PRIME;
            a = (a + sum) % PRIME;
        }
    }
    u32::try_from(b << 16 | a).expect("both are below 2^16")
}

impl Code {
    /// The lowest bits of a number, for what is written as it is.
    fn low(number: usize, len: u32) -> Self {
        Self {
            bits: u32::try_from(number & ((1 << len) - 1)).unwrap_or_default(),
            len,
        }
    }
}

/// Bits into bytes, from the lowest bit up.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    pending: u64,
    pending_len: u32,
}

impl Bits {
    fn push(&mut self, code: Code) {
        self.pending |= u64::from(code.bits) << self.pending_len;
        self.pending_len += code.len;
        if self.pending_len >= 32 {
            self.bytes.extend(&self.pending.to_le_bytes()[..4]);
            self.pending >>= 32;
            self.pending_len -= 32;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let rest = self.pending_len.div_ceil(8) as usize;
        self.bytes.extend(&self.pending.to_le_bytes()[..rest]);
        self.bytes
    }
}
