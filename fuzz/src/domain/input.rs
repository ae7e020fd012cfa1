//! Cuts the bytes of an input into values. When nothing is left, every number is 0 and every text is empty.

pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Input(bytes)
    }

    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// A number of which small ones and those at the ends of the range are common.
    pub fn number(&mut self) -> i64 {
        let mut bytes = [0; 8];
        let length = usize::from(self.byte() % 9);
        for byte in &mut bytes[..length] {
            *byte = self.byte();
        }
        let number = i64::from_le_bytes(bytes);
        match self.byte() % 4 {
            0 => number.wrapping_neg(),
            1 => i64::MAX.wrapping_add(number),
            _ => number,
        }
    }

    /// At most this many bytes.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let length = usize::from(self.byte()).min(most).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    /// The text at the begin of at most this many bytes.
    pub fn text(&mut self, most: usize) -> &'a str {
        text(self.bytes(most))
    }

    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// As much of the bytes as is UTF-8.
pub fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("UTF-8 so far"),
    }
}
