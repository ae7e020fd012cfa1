//! E-mail addresses.

use super::{Hit, Scanner, is_alphabetic, is_letter, is_one_of, run};

impl Scanner<'_> {
    /// Finds `local@domain`, also with `%40` for the `@`. The domain must have a dot with two
    /// letters after it, so `user@host` and `package@1.2.3` stay.
    pub(super) fn email(&self, at: usize, width: usize) -> Option<Hit> {
        let domain = &self.bytes[at + width..];
        let domain = &domain[..run(domain, |byte| is_letter(byte) || is_one_of(byte, b".-"))];
        let has_top_level = domain.windows(4).any(|part| {
            let [before, dot, top_level @ ..] = part else {
                return false;
            };
            *before != b'.' && *dot == b'.' && top_level.iter().all(|&byte| is_alphabetic(byte))
        });
        // The domain is examined first. To go back at every `@` would take time in the square of
        // the text's length.
        let start = if has_top_level {
            self.local_part(at)
        } else {
            at
        };
        if start == at {
            return None;
        }
        let trailing = domain
            .iter()
            .rev()
            .take_while(|&&byte| is_one_of(byte, b".-"));
        Hit::hidden(start, at + width + domain.len() - trailing.count())
    }

    /// Where the part before the `@` begins. RFC 5322 allows some characters there that usually
    /// separate words (`=`, `/`, `?`, `&`, `|`, braces). They are taken as separators here.
    fn local_part(&self, at: usize) -> usize {
        let before = &self.bytes[self.done..at];
        let length = (0..before.len())
            .rev()
            .take_while(|&index| {
                let byte = before[index];
                let inner = index > 0 && is_letter(before[index - 1]);
                is_letter(byte)
                    || is_one_of(byte, b"._%+-")
                    || (inner && is_one_of(byte, b"!#$'*^`~"))
            })
            .count();
        let start = self.past_escape(at - length);
        if length > 1 { start } else { at - length }
    }
}
