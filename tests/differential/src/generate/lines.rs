//! Random lines of the classic text protocol.

use super::{Generator, LARGE_VALUE_LEN};
use crate::keys::MISSING;
use crate::step::{After, Family, Part, Step};

/// Lines that are commands with few or no arguments, and lines that are none.
const OTHER_LINES: [&str; 62] = [
    "mn",
    "mn x y",
    "mn ",
    "version",
    "version x",
    "version noreply",
    "verbosity 0",
    "verbosity 1",
    "verbosity 1 noreply",
    "verbosity",
    "verbosity x",
    "verbosity noreply",
    "verbosity -1",
    "flush_all 100000",
    "flush_all 1000000 noreply",
    "flush_all x",
    "flush_all x noreply",
    "flush_all  100000  ",
    "flush_all 100000 1",
    "flush_all 4294967296",
    "stats",
    "stats settings",
    "stats reset",
    "stats garbage",
    "stats cachedump",
    "stats cachedump x 0",
    "stats detail x",
    "cache_memlimit",
    "cache_memlimit 1",
    "cache_memlimit 2000000000",
    "cache_memlimit x noreply",
    "shutdown",
    "shutdown x",
    "slabs",
    "slabs reassign 1",
    "slabs reassign x 1",
    "slabs automove",
    "slabs automove x",
    "slabs automove 9",
    "lru",
    "lru mode x",
    "lru tune 1 2",
    "lru tune 90 10 1 1",
    "lru_crawler",
    "lru_crawler x",
    "lru_crawler sleep x",
    "lru_crawler sleep 2000000",
    "watch garbage",
    "ERROR",
    "get",
    "get ",
    "gets  ",
    "gat 0",
    "gat",
    "set a",
    "touch a",
    "incr a",
    "delete",
    "x",
    "xyz noreply",
    "noreply",
    " get a",
];

impl Generator {
    /// Returns a random line, with the value if it is a storage command.
    pub(super) fn line(&mut self) -> Step {
        match self.choices.below(100) {
            0..28 => self.retrieval(),
            28..60 => self.store(),
            60..76 => self.arithmetic(),
            76..84 => self.touch(),
            84..92 => self.delete(),
            92 if self.choices.one_in(3) => self.quit(),
            _ => self.other_line(),
        }
    }

    /// Returns `get`, `gets`, `gat` or `gats`.
    fn retrieval(&mut self) -> Step {
        let name = self.choices.one_of(&["get", "gets", "gets", "gat", "gats"]);
        let mut line = name.as_bytes().to_vec();
        if name.starts_with("gat") {
            line.push(b' ');
            line.extend(self.exptime_word().into_bytes());
        }
        let count = match self.choices.below(100) {
            0 => 0,
            1..60 => 1,
            60..95 => 1 + self.choices.below(8),
            95..99 => self.choices.below(40),
            _ => self.choices.below(300),
        };
        let mut sole_key = None;
        for _ in 0..count {
            // memcached closes the connection if it has received only a part of a longer line of `gat` or `gats`.
            if name.starts_with("gat") && line.len() > LARGE_VALUE_LEN {
                break;
            }
            line.push(b' ');
            if self.choices.one_in(40) {
                line.push(b' ');
            }
            let key = self.present_key();
            sole_key = Some(key).filter(|_| count == 1);
            let word = if self.choices.one_in(15) { MISSING.to_vec() } else { self.key_word(key) };
            line.extend(word);
        }
        self.end_line(&mut line);
        Step { key: sole_key, ..Step::new(Family::Text, line) }
    }

    /// Returns a storage command with its value.
    fn store(&mut self) -> Step {
        let name = self.choices.weighted(&[
            (8, "set"),
            (3, "add"),
            (3, "replace"),
            (3, "append"),
            (3, "prepend"),
            (4, "cas"),
        ]);
        let key = match name {
            "set" => self.key(),
            "add" => self.absent_key(),
            _ => self.present_key(),
        };
        self.present[key] |= matches!(name, "set" | "add");
        let value = self.value(key);
        self.set_value(&value);
        let mut words = vec![self.key_word(key)];
        words.push(match self.choices.below(10) {
            0..7 => b"0".to_vec(),
            7..9 => self.choices.one_of(&["1", "4294967295", "123456"]).into(),
            _ => self.number_word().into_bytes(),
        });
        words.push(self.exptime_word().into_bytes());
        let value_len = self.length_word(value.len());
        words.push(value_len.clone().into_bytes());
        let mut head = [name.as_bytes(), &words.join(&b' ')].join(&b' ');
        let mut step = Step { key: Some(key), ..Step::new(Family::Text, Vec::new()) };
        step.parts.clear();
        if name == "cas" && !self.odd(40) {
            head.push(b' ');
            step.parts.push(Part::Bytes(std::mem::take(&mut head)));
            if self.choices.percent(80) {
                step.parts.push(self.cas_part(key));
            } else {
                head.extend(self.cas_word().into_bytes());
            }
        }
        head.extend_from_slice(match self.choices.below(60) {
            0..6 => b" noreply",
            6 => b" noreply ",
            7 => b" x",
            8 if !self.has_large_value => b" 1",
            9 if !self.has_large_value => b" 1 noreply",
            _ => b"",
        });
        self.end_line(&mut head);
        head.extend_from_slice(&value);
        step.after = self.end_value(&mut head, &value_len, value.len());
        step.parts.push(Part::Bytes(head));
        step
    }

    /// Returns a word for the length of a value, which rarely is another length.
    pub(super) fn length_word(&mut self, len: usize) -> String {
        if !self.odd(35) {
            return len.to_string();
        }
        match self.choices.below(5) {
            0 => (len + 1 + self.choices.below(4)).to_string(),
            1 => len.saturating_sub(1 + self.choices.below(4)).to_string(),
            2 => self.number_word(),
            3 => (1 << 20).to_string(),
            _ => self.odd_number(),
        }
    }

    fn arithmetic(&mut self) -> Step {
        let name = self.choices.one_of(&["incr", "decr"]);
        let key = self.number_key();
        let number = self.number_word();
        self.short_line(name, key, &number)
    }

    fn touch(&mut self) -> Step {
        let key = self.present_key();
        let exptime = self.exptime_word();
        self.short_line("touch", key, &exptime)
    }

    fn delete(&mut self) -> Step {
        let key = self.present_key();
        self.present[key] = false;
        let argument = if self.choices.one_in(20) { self.number_word() } else { String::new() };
        self.short_line("delete", key, &argument)
    }

    /// Returns a line with a key and at most one argument.
    fn short_line(&mut self, name: &str, key: usize, argument: &str) -> Step {
        let mut line = name.as_bytes().to_vec();
        line.push(b' ');
        line.extend(self.key_word(key));
        if !argument.is_empty() {
            line.push(b' ');
            line.extend_from_slice(argument.as_bytes());
        }
        line.extend_from_slice(match self.choices.below(60) {
            0..6 => b" noreply",
            6 => b" noreply x",
            7 => b" x",
            8 => b"  ",
            _ => b"",
        });
        self.end_line(&mut line);
        Step { key: Some(key), ..Step::new(Family::Text, line) }
    }

    fn quit(&mut self) -> Step {
        let line = self.choices.one_of(&["quit\r\n", "quit x\r\n", "quit noreply\r\n"]);
        Step { after: After::Finish, ..Step::new(Family::Text, line) }
    }

    fn other_line(&mut self) -> Step {
        let mut line = self.choices.one_of(&OTHER_LINES).as_bytes().to_vec();
        if self.choices.one_in(20) {
            line.insert(0, b' ');
        }
        self.end_line(&mut line);
        if self.choices.one_in(20) {
            line = self.choices.one_of(&["\r\n", "\n", "\r\r\n", " \r\n", "  \n", "\0\r\n"]).into();
        }
        Step::new(Family::Text, line)
    }

    /// Ends a line, mostly with CR LF.
    pub(super) fn end_line(&mut self, line: &mut Vec<u8>) {
        line.extend_from_slice(match self.choices.below(100) {
            0..3 => b"\n",
            3 => b" \r\n",
            4 if self.odd(4) => b"\r\r\n",
            _ => b"\r\n",
        });
    }

    /// Ends a value of `len` bytes, mostly with CR LF. `len_word` is the length in its line. Returns the end of the
    /// reply.
    pub(super) fn end_value(&mut self, bytes: &mut Vec<u8>, len_word: &str, len: usize) -> After {
        let end = if self.odd(30) { self.choices.below(5) } else { 5 };
        bytes.extend_from_slice(match end {
            0 => b"\n",
            1 => b"\r",
            2 => b"",
            3 => b"xx",
            4 => b"x\r\n",
            _ => b"\r\n",
        });
        let missing = len_word.parse::<usize>().unwrap_or(0).saturating_sub(len);
        if missing == 0 {
            return After::Marker;
        }
        if missing > 100 || self.choices.one_in(10) {
            // The server waits for the rest of the value.
            return After::Finish;
        }
        // The start of these lines becomes a part of the value.
        bytes.extend_from_slice(&b"filler\r\n".repeat(2 + missing / 8));
        After::Marker
    }
}
