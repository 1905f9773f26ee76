//! Random words and values: numbers, expiries, keys and the bytes of values.

use super::Generator;
use crate::compare::SUPPLIED_CAS_MIN;
use crate::keys::{KEYS, is_word};

/// Words that are numbers at the limits, or almost numbers.
const ODD_NUMBERS: [&str; 43] = [
    "-",
    "+",
    "-0",
    "+0",
    "+1",
    "-1",
    "--1",
    "+-1",
    "007",
    "00000000000",
    "000000000001",
    "0000000000000000000001",
    "00000000000000000000001",
    "1x",
    "x",
    "1.5",
    "1e3",
    "0x10",
    "1\t",
    "\t1",
    "1\0",
    "1\x00002",
    "\0",
    "1\r",
    "127",
    "128",
    "999",
    "2147483645",
    "2147483646",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "4294967297",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999",
];

/// Values that are numbers, or almost numbers. No value consists of white space, because memcached would increment such a
/// value as the bytes of an earlier item that follow it in memory.
const ODD_VALUES: [&[u8]; 38] = [
    b"",
    b"0",
    b"9",
    b"10",
    b"99",
    b"1 ",
    b" 1",
    b"  7  ",
    b"\t8",
    b"\x0b8",
    b"8\x0b",
    b"8\x0c9",
    b"\r\n5",
    b"5\r\n",
    b"12 34",
    b"12\t34",
    b"12\x0034",
    b"12\0",
    b"\x0012",
    b"+5",
    b"-5",
    b"-0",
    b"+-5",
    b"+ 5",
    b"- 5",
    b"5x",
    b"0x1f",
    b"1.5",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"-9223372036854775809",
    b"-18446744073709551615",
    b"-18446744073709551616",
    b"000000000000000000000000000000000000000000000000000000000000001",
    b"0000000000000000000000000000000000000000000000000000000000000000000000017",
];

impl Generator {
    /// Returns a number that fits into 64 bits.
    pub(super) fn plain_number(&mut self) -> u64 {
        match self.choices.below(10) {
            0..6 => self.choices.below(20) as u64,
            6..8 => self.choices.below(100_000) as u64,
            _ => self.choices.number(),
        }
    }

    /// Returns a word for a CAS value that no server assigns.
    pub(super) fn cas_word(&mut self) -> String {
        match self.choices.below(8) {
            0 if !self.has_large_value => self.odd_number(),
            1 => "0".to_owned(),
            0..3 => self.choices.below(20).to_string(),
            _ => (SUPPLIED_CAS_MIN + (self.choices.number() >> 20)).to_string(),
        }
    }

    /// Returns a word for a number, which rarely is none.
    pub(super) fn number_word(&mut self) -> String {
        if self.odd(8) { self.odd_number() } else { self.plain_number().to_string() }
    }

    /// Returns a word that is a number at a limit, or almost a number.
    pub(super) fn odd_number(&mut self) -> String {
        self.choices.one_of(&ODD_NUMBERS).to_owned()
    }

    /// Returns a word for an expiry, which rarely is none. The expiry is never, in the past, or far in the future.
    pub(super) fn exptime_word(&mut self) -> String {
        const VALID: [&str; 12] = [
            "0",
            "0",
            "0",
            "0",
            "0",
            "100000",
            "2592000",
            // The first number that is a Unix time.
            "2592001",
            "1000000000",
            "2147483647",
            "-1",
            "-100",
        ];
        const ODD: [&str; 16] = [
            "-",
            "-0",
            "+0",
            "+100000",
            "--1",
            "x",
            "0x",
            "1.5",
            "0\t",
            "0\0",
            "00000000000",
            "2147483648",
            "4294967295",
            "4294967296",
            "-2147483648",
            "-2147483649",
        ];
        let words = if self.odd(25) { &ODD[..] } else { &VALID[..] };
        self.choices.one_of(words).to_owned()
    }

    /// Returns an expiry for a packet.
    pub(super) fn exptime_number(&mut self) -> u32 {
        self.choices.one_of(&[0, 0, 0, 0, 100_000, 2_592_000, 2_592_001, 2_147_483_648, u32::MAX])
    }

    /// Returns a value for a key: mostly a number if the key is one for numbers, and otherwise random bytes.
    pub(super) fn value(&mut self, key: usize) -> Vec<u8> {
        if key < crate::keys::NUMBER_KEYS {
            return match self.choices.below(20) {
                0..13 => self.plain_number().to_string().into_bytes(),
                13..19 => self.choices.one_of(&ODD_VALUES).to_vec(),
                _ => self.long_number(),
            };
        }
        if self.choices.one_in(4) {
            return self.choices.one_of(&ODD_VALUES).to_vec();
        }
        let len = match self.choices.below(1000) {
            0..700 => self.choices.below(20),
            700..900 => self.choices.below(200),
            900..980 => self.choices.below(3000),
            980..997 => self.choices.below(40_000),
            997..999 => self.choices.below(300_000),
            // Values about as large as the largest item.
            _ => 1_047_900 + self.choices.below(800),
        };
        if self.choices.one_in(10) {
            return self.lines_as_value(len);
        }
        let byte = self.choices.one_of(b"abcdefgh0123456789 \r\n\0\xff");
        let mut value = vec![byte; len];
        if let Some(first) = value.first_mut() {
            *first = self.choices.one_of(b"vwxyz17");
        }
        value
    }

    /// Returns a value that contains commands.
    fn lines_as_value(&mut self, len: usize) -> Vec<u8> {
        const LINES: [&str; 5] = [
            "get text\r\n",
            "set text 0 0 1\r\nx\r\n",
            "delete text\r\n",
            "mg text v\r\n",
            "END\r\n",
        ];
        let mut value = Vec::new();
        while value.len() < len.min(200) {
            value.extend_from_slice(self.choices.one_of(&LINES).as_bytes());
        }
        value
    }

    /// Returns a number with many digits or spaces.
    fn long_number(&mut self) -> Vec<u8> {
        let len = self.choices.one_of(&[19, 20, 21, 62, 63, 64, 65, 66, 100, 1000, 30_000]);
        let number = self.plain_number();
        match self.choices.below(3) {
            0 => format!("{number:0len$}").into_bytes(),
            1 => format!("{number:<len$}").into_bytes(),
            _ => format!("{number:>len$}").into_bytes(),
        }
    }

    /// Returns the key of a command in the text protocol, which rarely is too long. Keys with spaces or line ends are
    /// replaced.
    pub(super) fn key_word(&mut self, key: usize) -> Vec<u8> {
        if self.odd(150) {
            return self.long_key();
        }
        if is_word(KEYS[key]) { KEYS[key].to_vec() } else { b"text".to_vec() }
    }

    /// Returns a key that is too long.
    pub(super) fn long_key(&mut self) -> Vec<u8> {
        vec![b'z'; self.choices.one_of(&[251, 252, 255, 256, 257, 300, 1000])]
    }
}
