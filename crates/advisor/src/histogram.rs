//! Reads item sizes from a text file.
//!
//! ```text
//!   # comment or empty line          96 35          35 items of 96 bytes
//!   size,count   header              96,35          the separator can also be a tab or a semicolon
//!   END          after stats         96             one item of 96 bytes
//!                                    STAT 96 35     a bin of `stats sizes`: items of 65 to 96 bytes
//! ```
//!
//! Lines can have any order, and counts of the same size are added. All lines of a file must have one form. A file has at
//! most [`FILE_SIZE_BYTES_MAX`] bytes, and a line at most [`LINE_LEN_MAX`].

use crate::error::{AdvisorError, shown};
use crate::sizes_seen::{BIN_BYTES, BYTES_MAX, ITEMS_MAX, SizesSeen, TooMuch, spread};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramLine {
    Blank,
    Words,
    End,
    Items { form: Form, size_bytes: usize, items: u64 },
}

/// The form of the lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Sizes,
    SizesAndCounts,
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

/// Parses a line without its line break. The error names the expected form.
pub fn parse(line: &[u8]) -> Result<HistogramLine, String> {
    let Ok(text) = std::str::from_utf8(line) else {
        return Err(format!("{} is not text: give lines of 'SIZE COUNT'", shown(line)));
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
            "'STAT sizes_status {status}': the server does not count sizes: start it with -o \
             track_sizes, or use --from-server, which does not need them"
        )),
        ["STAT", size, count] => items(Form::Stats, size, count),
        ["STAT", ..] => {
            Err(format!("{} is not a row of `stats sizes`: give 'STAT SIZE COUNT'", shown(line)))
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
        return Err("size 0: give the size of the whole item, at least 1".to_owned());
    }
    let Ok(size_bytes) = usize::try_from(size_bytes) else { return Err(huge("size", size)) };
    Ok(HistogramLine::Items { form, size_bytes, items: number("count", count)? })
}

/// Parses a whole number of at least 0. `name` describes it in errors.
fn number(name: &str, word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix('+').unwrap_or(word);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits(digits) {
        return digits.parse().map_err(|_| huge(name, word));
    }
    let word_shown = shown(word.as_bytes());
    match word.strip_prefix('-').is_some_and(is_digits) {
        true => Err(format!("{name} {word_shown} is negative: give at least 0")),
        false => Err(format!("{name} {word_shown} is not a whole number: give only digits")),
    }
}

fn huge(name: &str, word: &str) -> String {
    format!("{name} {} is above the maximum, {}: lower it", shown(word.as_bytes()), u64::MAX)
}

pub const FILE_SIZE_BYTES_MAX: u64 = 256 << 20;
pub const LINE_LEN_MAX: usize = 1024;

/// Reads a file, or the standard input for `-`. An item above `item_size_max` is an error.
pub fn read(path: &Path, item_size_max: usize) -> Result<SizesSeen, AdvisorError> {
    if path.as_os_str() == "-" {
        return Histogram::new("the standard input", item_size_max).read(io::stdin().lock());
    }
    let histogram = Histogram::new(&path.display().to_string(), item_size_max);
    let input = File::open(path).map_err(|error| histogram.unreadable(&error))?;
    let is_directory = input.metadata().map_err(|error| histogram.unreadable(&error))?.is_dir();
    if is_directory {
        return Err(histogram.unreadable(&io::ErrorKind::IsADirectory.into()));
    }
    histogram.read(BufReader::new(input))
}

struct Histogram {
    file: String,
    item_size_max: usize,
    line: u64,
    /// The form of the file, and the first line that has it.
    form: Option<(Form, u64)>,
    has_words: bool,
    seen: SizesSeen,
}

impl Histogram {
    fn new(file: &str, item_size_max: usize) -> Histogram {
        let (line, form, has_words, seen) = (0, None, false, SizesSeen::default());
        Histogram { file: file.to_owned(), item_size_max, line, form, has_words, seen }
    }

    fn read(mut self, input: impl BufRead) -> Result<SizesSeen, AdvisorError> {
        let mut input = input.take(FILE_SIZE_BYTES_MAX + 1);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut piece = (&mut input).take(LINE_LEN_MAX as u64 + 1);
            let read = piece.read_until(b'\n', &mut line);
            let read = read.map_err(|error| self.unreadable(&error))?;
            if input.limit() == 0 {
                let mib = FILE_SIZE_BYTES_MAX >> 20;
                return Err(self.wrong_file(format!(
                    "is larger than {mib} MiB: merge equal sizes into 'SIZE COUNT' lines"
                )));
            }
            if read == 0 {
                return self.finish();
            }
            self.line += 1;
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            self.take_line(text).map_err(|what| self.wrong(what))?;
        }
    }

    fn take_line(&mut self, mut text: &[u8]) -> Result<(), String> {
        if text.len() > LINE_LEN_MAX {
            return Err(format!(
                "the line has more than {LINE_LEN_MAX} bytes: give lines of 'SIZE COUNT'"
            ));
        }
        // Some editors add a byte order mark.
        if self.line == 1 {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        match parse(text)? {
            HistogramLine::Blank => {}
            HistogramLine::Words if self.form.is_none() && !self.has_words => self.has_words = true,
            HistogramLine::Words => {
                return Err(
                    "a second line without numbers: give 'SIZE COUNT', or # before a comment"
                        .to_owned(),
                );
            }
            HistogramLine::End => {
                if self.form.is_some_and(|(form, _)| form != Form::Stats) {
                    return Err(
                        "'END' in a file that is not from `stats sizes`: remove it".to_owned()
                    );
                }
            }
            HistogramLine::Items { form, size_bytes, items } => {
                self.check_items(form, size_bytes)?;
                // Counting the items of a bin with its largest size prevents overflows here and later.
                self.seen.add(size_bytes, items).map_err(too_much)?;
            }
        }
        Ok(())
    }

    fn check_items(&mut self, form: Form, size_bytes: usize) -> Result<(), String> {
        let &mut (first_form, first_line) = self.form.get_or_insert((form, self.line));
        if form != first_form {
            let (has, had) = (form.describe(), first_form.describe());
            return Err(format!(
                "the line has {has}, but line {first_line} has {had}: use one form for all lines"
            ));
        }
        // The last bin ends at the limit or at the next multiple of the bin size.
        let (what, max) = match form {
            Form::Stats => ("a bin up to", self.item_size_max.next_multiple_of(BIN_BYTES)),
            _ => ("an item of", self.item_size_max),
        };
        if size_bytes > max {
            return Err(format!(
                "{what} {size_bytes} bytes is above the largest item, {max} bytes: give the server's -I \
                 as --item-size-max, or remove the line"
            ));
        }
        if form == Form::Stats && !size_bytes.is_multiple_of(BIN_BYTES) {
            return Err(format!(
                "{size_bytes} is not a bin of `stats sizes`, whose bins have {BIN_BYTES} bytes: give \
                 exact sizes without STAT"
            ));
        }
        Ok(())
    }

    fn finish(self) -> Result<SizesSeen, AdvisorError> {
        if self.seen.item_count() == 0 {
            return Err(self.wrong_file("has no items: give lines of 'SIZE COUNT'".to_owned()));
        }
        if !matches!(self.form, Some((Form::Stats, _))) {
            return Ok(self.seen);
        }
        let seen = spread(&self.seen.bins().collect(), &BTreeMap::new());
        seen.map_err(|error| self.wrong(too_much(error)))
    }

    fn unreadable(&self, error: &io::Error) -> AdvisorError {
        self.wrong_file(format!("cannot be read: {error}; give a text file of 'SIZE COUNT' lines"))
    }

    fn wrong(&self, what: String) -> AdvisorError {
        AdvisorError::Line { file: self.file.clone(), line: self.line, what }
    }

    fn wrong_file(&self, what: String) -> AdvisorError {
        AdvisorError::File { file: self.file.clone(), what }
    }
}

fn too_much(_: TooMuch) -> String {
    format!(
        "the items up to here are more than {ITEMS_MAX} or have more than {BYTES_MAX} bytes: divide \
         all counts by a constant"
    )
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod line_tests {
    use super::{Form, HistogramLine, parse};
    use slabwise_base::Random;

    #[test]
    fn parses_every_form_of_line() {
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
    fn an_invalid_line_is_an_error_with_the_reason() {
        let cases: [(&[u8], &str); 14] = [
            (b"-5 3", "size '-5' is negative"),
            (b"5 -3", "count '-3' is negative"),
            (b"0 3", "size 0"),
            (b"1.5 3", "size '1.5' is not a whole number"),
            (b"10 1e6", "count '1e6' is not a whole number"),
            (b"10 x", "count 'x' is not a whole number"),
            (b"18446744073709551616 1", "is above the maximum, 18446744073709551615"),
            (b"1 99999999999999999999999", "is above the maximum, 18446744073709551615"),
            (b"1 2 3", "has 3 fields"),
            (b"{\"96\": 35}", "looks like JSON"),
            (b"\x7fELF\x02\x01\0\0", "binary"),
            (b"\xff\xfe1 2", "is not text"),
            (b"STAT sizes_status disabled", "track_sizes, or use --from-server"),
            (b"STAT pid 1 2", "is not a row of `stats sizes`"),
        ];
        for (line, reason) in cases {
            let error = parse(line).expect_err("no line of a histogram");
            assert!(error.contains(reason), "{line:?}: {error}");
        }
    }

    #[test]
    fn parses_written_lines_and_does_not_panic_on_random_ones() {
        const SEED: u64 = 1;
        const BYTES: &[u8] = b"0123456789 ,;\t-+.#STATENDsizes_\"{[\0\xff\xc3\xa4";
        let mut random = Random::new(SEED);
        for _ in 0..20_000 {
            let len = random.below(24);
            let byte = |random: &mut Random| BYTES[random.below(BYTES.len() as u64) as usize];
            let line: Vec<u8> = (0..len).map(|_| byte(&mut random)).collect();
            let _ = parse(&line);
            let (size_bytes, items) = (1 + random.below(1 << 30) as usize, random.next_u64());
            let text = format!("{size_bytes} {items}");
            let expected = HistogramLine::Items { form: Form::SizesAndCounts, size_bytes, items };
            assert_eq!(parse(text.as_bytes()), Ok(expected), "seed {SEED}");
        }
    }
}
