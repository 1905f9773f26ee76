//! The help on all kinds, put together by the compiler.

use super::order::Info;

/// Longer help does not compile.
const LEN_MAX: usize = 1024;

/// Text of a constant.
pub struct Text {
    bytes: [u8; LEN_MAX],
    len: usize,
}

impl Text {
    /// Each kind's name before its help. Kinds in a row with the same help share it.
    pub const fn of_kinds(start: &str, kinds: &[&Info]) -> Text {
        let mut text = Text { bytes: [0; LEN_MAX], len: 0 }.with(start);
        let mut at = 0;
        while at < kinds.len() {
            let (kind, is_last) = (kinds[at], at + 1 == kinds.len());
            text = text.with(kind.name);
            text = if !is_last && is_same(kind.help, kinds[at + 1].help) {
                text.with(", ")
            } else {
                text.with(": ").with(kind.help).with(if is_last { "" } else { "; " })
            };
            at += 1;
        }
        text
    }

    const fn with(mut self, part: &str) -> Text {
        let (_, rest) = self.bytes.split_at_mut(self.len);
        rest.split_at_mut(part.len()).0.copy_from_slice(part.as_bytes());
        self.len += part.len();
        self
    }

    pub const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => panic!("parts of text are text"),
        }
    }
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b, mut at) = (a.as_bytes(), b.as_bytes(), 0);
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests {
    use super::{Info, Text};

    #[test]
    fn kinds_in_a_row_share_their_help() {
        let kinds = [Info::new("a", "one"), Info::new("b", "two"), Info::new("c", "two")];
        let text = Text::of_kinds("start. ", &kinds.each_ref());
        assert_eq!(text.as_str(), "start. a: one; b, c: two");
    }
}
