//! A line of a histogram file.
//!
//! ```text
//!   # a comment, or nothing          96 35          items of 96 bytes: 35
//!   size,count   a header            96,35          the same; also by tab or semicolon
//!   END          after stats         96             one item of 96 bytes
//!                                    STAT 96 35     a bar of `stats sizes`: items of 65 to 96 bytes
//! ```

use crate::error::shown;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramLine {
    /// Nothing: empty, or a comment.
    Blank,
    Words,
    End,
    Items {
        form: Form,
        size_bytes: usize,
        items: u64,
    },
}

/// How the lines of a file are written; one for the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Sizes,
    SizesAndCounts,
    /// Bars of `stats sizes`.
    Stats,
}

impl Form {
    pub fn describe(self) -> &'static str {
        match self {
            Form::Sizes => "one number, a size",
            Form::SizesAndCounts => "two numbers, SIZE COUNT",
            Form::Stats => "'STAT SIZE COUNT'",
        }
    }
}

/// Takes a line apart, without its line end. The error says what is wrong and what a line should be.
pub fn parse(line: &[u8]) -> Result<HistogramLine, String> {
    let Ok(text) = std::str::from_utf8(line) else {
        return Err(format!("{} is no text: give lines of 'SIZE COUNT'", shown(line)));
    };
    if text.contains('\0') {
        return Err("the file is binary: give lines of 'SIZE COUNT'".to_owned());
    }
    let text = text.trim();
    let first = text.bytes().next();
    match first {
        None | Some(b'#') => return Ok(HistogramLine::Blank),
        Some(b'{' | b'[' | b'<') => {
            let found = shown(line);
            return Err(format!("{found} looks like JSON or XML: give lines of 'SIZE COUNT'"));
        }
        Some(_) => {}
    }
    let is_separator = |c: char| c.is_ascii_whitespace() || c == ',' || c == ';';
    let words: Vec<&str> = text.split(is_separator).filter(|word| !word.is_empty()).collect();
    match words[..] {
        ["END"] => Ok(HistogramLine::End),
        ["STAT", "sizes_status", status] => Err(format!(
            "'STAT sizes_status {status}': the server does not count sizes; start it with -o \
             track_sizes, or ask it by --from-server, which can do without"
        )),
        ["STAT", size, count] => items(Form::Stats, size, count),
        ["STAT", ..] => {
            Err(format!("{} is no row of `stats sizes`: give 'STAT SIZE COUNT'", shown(line)))
        }
        [word, ..] if word.starts_with(|c: char| c.is_alphabetic() || c == '"' || c == '_') => {
            Ok(HistogramLine::Words)
        }
        [size] => items(Form::Sizes, size, "1"),
        [size, count] => items(Form::SizesAndCounts, size, count),
        _ => Err(format!(
            "{} has {} fields: give 'SIZE COUNT', or one size",
            shown(line),
            words.len()
        )),
    }
}

fn items(form: Form, size: &str, count: &str) -> Result<HistogramLine, String> {
    let size_bytes = number("size", size)?;
    if size_bytes == 0 {
        return Err("size 0: an item has at least one byte; give header, key and value".to_owned());
    }
    let Ok(size_bytes) = usize::try_from(size_bytes) else { return Err(huge("size", size)) };
    Ok(HistogramLine::Items { form, size_bytes, items: number("count", count)? })
}

/// A whole number from 0 up; `name` says of what.
fn number(name: &str, word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix('+').unwrap_or(word);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits(digits) {
        return digits.parse().map_err(|_| huge(name, word));
    }
    let word_shown = shown(word.as_bytes());
    match word.strip_prefix('-').is_some_and(is_digits) {
        true => Err(format!("{name} {word_shown} is negative: give a number from 0 up")),
        false => Err(format!("{name} {word_shown} is no whole number: give one in plain digits")),
    }
}

fn huge(name: &str, word: &str) -> String {
    format!("{name} {} is above {}: give less", shown(word.as_bytes()), u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Form, HistogramLine, parse};
    use slabwise_base::Random;

    #[test]
    fn every_form_is_understood() {
        let items = |form, size_bytes, items| HistogramLine::Items { form, size_bytes, items };
        let cases = [
            ("96 35", items(Form::SizesAndCounts, 96, 35)),
            ("  96\t35 ", items(Form::SizesAndCounts, 96, 35)),
            ("96,35", items(Form::SizesAndCounts, 96, 35)),
            ("96, 0", items(Form::SizesAndCounts, 96, 0)),
            ("96;35", items(Form::SizesAndCounts, 96, 35)),
            ("96", items(Form::Sizes, 96, 1)),
            ("STAT 96 35", items(Form::Stats, 96, 35)),
            ("END", HistogramLine::End),
            ("", HistogramLine::Blank),
            ("# 96 35", HistogramLine::Blank),
            ("size,count", HistogramLine::Words),
            ("\"size\" \"count\"", HistogramLine::Words),
        ];
        for (line, expected) in cases {
            assert_eq!(parse(line.as_bytes()), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_is_no_line_is_told_apart() {
        let cases: [(&[u8], &str); 14] = [
            (b"-5 3", "size '-5' is negative"),
            (b"5 -3", "count '-3' is negative"),
            (b"0 3", "size 0"),
            (b"1.5 3", "size '1.5' is no whole number"),
            (b"10 1e6", "count '1e6' is no whole number"),
            (b"10 x", "count 'x' is no whole number"),
            (b"18446744073709551616 1", "is above 18446744073709551615"),
            (b"1 99999999999999999999999", "is above 18446744073709551615"),
            (b"1 2 3", "has 3 fields"),
            (b"{\"96\": 35}", "looks like JSON"),
            (b"\x7fELF\x02\x01\0\0", "binary"),
            (b"\xff\xfe1 2", "is no text"),
            (b"STAT sizes_status disabled", "track_sizes, or ask it"),
            (b"STAT pid 1 2", "is no row of `stats sizes`"),
        ];
        for (line, reason) in cases {
            let error = parse(line).expect_err("no line of a histogram");
            assert!(error.contains(reason), "{line:?}: {error}");
        }
    }

    #[test]
    fn no_line_breaks_it_and_what_is_read_was_written() {
        const SEED: u64 = 1;
        const BYTES: &[u8] = b"0123456789 ,;\t-+.#STATENDsizes_\"{[\0\xff\xc3\xa4";
        let mut random = Random::new(SEED);
        for _ in 0..20_000 {
            let len = random.below(24);
            let byte = |random: &mut Random| BYTES[random.below(BYTES.len() as u64) as usize];
            let line: Vec<u8> = (0..len).map(|_| byte(&mut random)).collect();
            // Whatever it is, it is told without a panic.
            let _ = parse(&line);
            let (size_bytes, items) = (1 + random.below(1 << 30) as usize, random.next_u64());
            let text = format!("{size_bytes} {items}");
            let expected = HistogramLine::Items { form: Form::SizesAndCounts, size_bytes, items };
            assert_eq!(parse(text.as_bytes()), Ok(expected), "seed {SEED}");
        }
    }
}
