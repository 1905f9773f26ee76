//! Random lines of the meta protocol.

use super::Generator;
use crate::keys::{KEYS, MISSING, ODD_BASE64, base64, is_word};
use crate::step::{Family, Part, Step};

impl Generator {
    /// Returns a random line, with the value if it is an `ms`.
    pub(super) fn meta_line(&mut self) -> Step {
        let name = self.choices.weighted(&[
            (35, "mg"),
            (30, "ms"),
            (12, "md"),
            (20, "ma"),
            (3, "me"),
            (1, "mn"),
        ]);
        let key = match name {
            "ma" => self.number_key(),
            "ms" => self.key(),
            _ => self.present_key(),
        };
        match name {
            "ms" => self.present[key] = true,
            "md" => self.present[key] = false,
            _ => {}
        }
        let mut step = Step { key: Some(key), ..Step::new(Family::Meta, Vec::new()) };
        step.parts.clear();
        let value = if name == "ms" { self.value(key) } else { Vec::new() };
        self.set_value(&value);
        let (word, has_base64) = self.meta_key(key);
        if self.odd(150) {
            // With flags, the first flag would be the key.
            let mut line = name.as_bytes().to_vec();
            self.end_line(&mut line);
            return Step::new(Family::Meta, line);
        }
        let mut line = [name.as_bytes(), &word].join(&b' ');
        let value_len = self.length_word(value.len());
        if name == "ms" {
            line.push(b' ');
            line.extend_from_slice(value_len.as_bytes());
        }
        self.flags(&mut step, &mut line, name, key, has_base64);
        self.end_line(&mut line);
        if name == "ms" {
            line.extend_from_slice(&value);
            step.after = self.end_value(&mut line, &value_len, value.len());
        }
        step.parts.push(Part::Bytes(line));
        if name == "ma" {
            self.probe_change(&step, word, has_base64);
        }
        step
    }

    /// Makes the next step show the expiry and the CAS value of an item if this step sets one of them and changes a
    /// number. memcached loses them if the number has more digits than before.
    fn probe_change(&mut self, step: &Step, key_word: Vec<u8>, has_base64: bool) {
        let bytes = step.bytes(|_| 0);
        if bytes.windows(2).any(|pair| pair == b" T" || pair == b" E") {
            let mut line = [b"mg ", &key_word[..], b" t c"].concat();
            if has_base64 {
                line.extend_from_slice(b" b");
            }
            line.extend_from_slice(b"\r\n");
            self.next = Some(Step { key: step.key, ..Step::new(Family::Meta, line) });
        }
    }

    /// Returns the key of a meta command, and true if it is in base64.
    fn meta_key(&mut self, key: usize) -> (Vec<u8>, bool) {
        match self.choices.below(200) {
            _ if self.has_large_value => {}
            0 => return (self.long_key(), false),
            1..7 => return (self.choices.one_of(&ODD_BASE64).to_vec(), true),
            7 => return (base64(KEYS[key]), false),
            8..13 => return (MISSING.to_vec(), false),
            _ => {}
        }
        if !is_word(KEYS[key]) || self.choices.one_in(8) {
            (base64(KEYS[key]), true)
        } else {
            (KEYS[key].to_vec(), false)
        }
    }

    /// Appends random flags. `line` are the last bytes of the step, which are not in it yet.
    fn flags(
        &mut self,
        step: &mut Step,
        line: &mut Vec<u8>,
        name: &str,
        key: usize,
        has_base64: bool,
    ) {
        let usual: &[u8] = match name {
            "mg" => b"vvvvttccffsshhlkOqTNREuC",
            "ms" => b"cckOqTTFIMMCCEENbsF",
            "md" => b"qkOICCETxxF",
            "ma" => b"vvvttcckOqTNNJDDMME C",
            _ => b"bkO",
        };
        let mut letters = Vec::new();
        if has_base64 && !self.odd(40) {
            letters.push(b'b');
        }
        let count = match self.choices.below(50) {
            0 if !self.has_large_value => 17 + self.choices.below(6),
            0..4 => self.choices.below(12),
            _ => self.choices.below(6),
        };
        for _ in 0..count {
            let letter = match self.choices.below(100) {
                _ if self.has_large_value => self.choices.one_of(usual),
                0 if self.choices.one_in(2) => self.choices.one_of(b"!#*-_\x7f\xff~\t\0"),
                0 => self.choices.one_of(b"0123456789"),
                1..3 => {
                    self.choices.one_of(b"abcdefhijklmnopqrstuvwxyzABCDEFHIJKLMNOPQRSTUVWXYZ[^`")
                }
                _ => self.choices.one_of(usual),
            };
            // Most duplicates are left out, because a line with a duplicate flag is refused.
            if !letters.contains(&letter) || self.odd(40) {
                letters.insert(self.choices.below(letters.len() + 1), letter);
            }
        }
        for letter in letters {
            line.extend_from_slice(if self.choices.one_in(60) { b"  " } else { b" " });
            if letter != b' ' {
                line.push(letter);
            }
            self.token(step, line, name, letter, key);
        }
    }

    /// Appends the token of a flag.
    fn token(&mut self, step: &mut Step, line: &mut Vec<u8>, name: &str, letter: u8, key: usize) {
        let token = match letter {
            b'T' | b'N' => self.exptime_word(),
            b'R' if self.odd(30) => self.odd_number(),
            b'R' => self.choices.one_of(&["0", "30", "-1", "200000"]).to_owned(),
            b'C' if self.choices.percent(75) => {
                step.parts.push(Part::Bytes(std::mem::take(line)));
                step.parts.push(self.cas_part(key));
                return;
            }
            b'C' | b'E' => self.cas_word(),
            b'D' | b'J' => self.number_word(),
            b'F' => self.number_word(),
            b'M' => self.mode(name),
            b'O' => {
                let len = match self.choices.below(20) {
                    0 => 28 + self.choices.below(8),
                    _ => self.choices.below(10),
                };
                "o1".repeat(len)[..len].to_owned()
            }
            // Other flags have no token. memcached ignores it.
            _ if self.choices.one_in(100) => self.choices.one_of(&["1", "x", "0"]).to_owned(),
            _ => return,
        };
        line.extend_from_slice(token.as_bytes());
    }

    /// Returns the token of the flag M.
    fn mode(&mut self, name: &str) -> String {
        let modes: &[&str] = match name {
            "ms" => &["S", "E", "A", "A", "P", "P", "R"],
            _ => &["I", "D", "+", "-", "D", "-"],
        };
        match self.choices.below(25) {
            _ if self.has_large_value => self.choices.one_of(modes).to_owned(),
            0 => self.choices.one_of(&["", "s", "i", "x", "Set", "Incr", "\0", "9"]).to_owned(),
            1 => self.choices.one_of(&["I", "E", "A", "D"]).to_owned(),
            _ => self.choices.one_of(modes).to_owned(),
        }
    }
}
