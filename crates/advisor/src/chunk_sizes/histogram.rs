//! Reads item sizes from a text file. These are the valid lines:
//!
//! ```text
//!   96 35         35 items of 96 bytes; the separator can also be a comma, a semicolon or a tab
//!   96            one item of 96 bytes
//!   STAT 96 35    a bin of `stats sizes`: 35 items of 65 to 96 bytes
//!   END           the end of `stats sizes`
//!   size,count    a header; only one
//!   # text        a comment; an empty line is a comment, too
//! ```
//!
//! Lines can have any order, and the counts of the same size are added. All lines with items must have the same form. A
//! file has at most [`FILE_SIZE_BYTES_MAX`] bytes, and a line has at most [`LINE_LEN_MAX`] bytes.

use crate::chunk_sizes::error::{AdvisorError, quoted};
use crate::chunk_sizes::sizes_seen::{
    BIN_BYTES, BYTES_MAX, ITEMS_MAX, LimitExceeded, SizesSeen, spread,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A parsed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramLine {
    /// An empty line or a comment.
    Blank,
    /// A line that begins with a letter or a quote, which can only be a header.
    Header,
    /// The line `END`.
    End,
    /// Items of a size.
    Items {
        /// The form of the line.
        form: Form,
        /// The size of each item, at least 1.
        size_bytes: usize,
        /// The number of items.
        items: u64,
    },
}

/// The form of a line with items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One item of a size: `96`.
    Sizes,
    /// A size and the number of its items: `96 35`.
    SizesAndCounts,
    /// A row of `stats sizes`: `STAT 96 35`.
    Stats,
}

impl Form {
    /// Describes the form in an error text.
    pub fn describe(self) -> &'static str {
        match self {
            Form::Sizes => "one number, a size",
            Form::SizesAndCounts => "two numbers, SIZE COUNT",
            Form::Stats => "'STAT SIZE COUNT'",
        }
    }
}

/// Parses a line without its line end. The error names the expected form.
pub fn parse(line: &[u8]) -> Result<HistogramLine, String> {
    let Ok(text) = std::str::from_utf8(line) else {
        return Err(format!("{} is not text: give lines of 'SIZE COUNT'", quoted(line)));
    };
    if text.contains('\0') {
        return Err("the file is binary: give lines of 'SIZE COUNT'".to_owned());
    }
    let text = text.trim();
    let first = text.bytes().next();
    match first {
        None | Some(b'#') => return Ok(HistogramLine::Blank),
        Some(b'{' | b'[' | b'<') => {
            let found = quoted(line);
            return Err(format!("{found} looks like JSON or XML: give lines of 'SIZE COUNT'"));
        }
        Some(_) => {}
    }
    let is_separator = |c: char| c.is_ascii_whitespace() || c == ',' || c == ';';
    let words: Vec<&str> = text.split(is_separator).filter(|word| !word.is_empty()).collect();
    match words[..] {
        ["END"] => Ok(HistogramLine::End),
        ["STAT", "sizes_status", _] => Err(format!(
            "{}: the server does not count sizes: start it with -o \
             track_sizes, or use --from-server, which does not need them",
            quoted(line)
        )),
        ["STAT", size, count] => parse_items(Form::Stats, size, count),
        ["STAT", ..] => {
            Err(format!("{} is not a row of `stats sizes`: give 'STAT SIZE COUNT'", quoted(line)))
        }
        [word, ..] if word.starts_with(|c: char| c.is_alphabetic() || c == '"' || c == '_') => {
            Ok(HistogramLine::Header)
        }
        [size] => parse_items(Form::Sizes, size, "1"),
        [size, count] => parse_items(Form::SizesAndCounts, size, count),
        _ => Err(format!(
            "{} has {} fields: give 'SIZE COUNT', or one size",
            quoted(line),
            words.len()
        )),
    }
}

/// Parses the size and the count of a line.
fn parse_items(form: Form, size: &str, count: &str) -> Result<HistogramLine, String> {
    let size_bytes = parse_number("size", size)?;
    if size_bytes == 0 {
        return Err("size 0: give the size of the whole item, at least 1".to_owned());
    }
    let Ok(size_bytes) = usize::try_from(size_bytes) else { return Err(too_large("size", size)) };
    Ok(HistogramLine::Items { form, size_bytes, items: parse_number("count", count)? })
}

/// Parses a whole number of at least 0. `name` is the name of the number in error texts.
fn parse_number(name: &str, word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix('+').unwrap_or(word);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits(digits) {
        return digits.parse().map_err(|_| too_large(name, word));
    }
    let word_shown = quoted(word.as_bytes());
    match word.strip_prefix('-').is_some_and(is_digits) {
        true => Err(format!("{name} {word_shown} is negative: give at least 0")),
        false => Err(format!("{name} {word_shown} is not a whole number: give only digits")),
    }
}

/// Returns the error text of a number that does not fit into 64 bits.
fn too_large(name: &str, word: &str) -> String {
    format!("{name} {} is above the maximum, {}: lower it", quoted(word.as_bytes()), u64::MAX)
}

/// The maximum size of a file.
pub const FILE_SIZE_BYTES_MAX: u64 = 256 << 20;
/// The maximum length of a line in bytes.
pub const LINE_LEN_MAX: usize = 1024;

/// Reads a file, or the standard input if the path is `-`. Fails if an item is larger than `item_size_max` bytes.
pub fn read(path: &Path, item_size_max: usize) -> Result<SizesSeen, AdvisorError> {
    if path.as_os_str() == "-" {
        return Histogram::new("the standard input", item_size_max).read(io::stdin().lock());
    }
    let histogram = Histogram::new(&path.display().to_string(), item_size_max);
    let input = File::open(path).map_err(|error| histogram.read_error(&error))?;
    let is_directory = input.metadata().map_err(|error| histogram.read_error(&error))?.is_dir();
    if is_directory {
        return Err(histogram.read_error(&io::ErrorKind::IsADirectory.into()));
    }
    histogram.read(BufReader::new(input))
}

/// The state of reading a file.
struct Histogram {
    /// The name of the file, for errors.
    file: String,
    /// The maximum size of an item in bytes.
    item_size_max: usize,
    /// The number of the current line, from 1.
    line: u64,
    /// The form of the lines with items, and the number of the first such line. `None` before this line.
    form: Option<(Form, u64)>,
    /// True if a header has been read.
    has_header: bool,
    seen: SizesSeen,
}

impl Histogram {
    fn new(file: &str, item_size_max: usize) -> Histogram {
        let (line, form, has_header, seen) = (0, None, false, SizesSeen::default());
        Histogram { file: file.to_owned(), item_size_max, line, form, has_header, seen }
    }

    /// Reads all lines of the input.
    fn read(mut self, input: impl BufRead) -> Result<SizesSeen, AdvisorError> {
        let mut input = input.take(FILE_SIZE_BYTES_MAX + 1);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut bounded_input = (&mut input).take(LINE_LEN_MAX as u64 + 1);
            let read_len = bounded_input.read_until(b'\n', &mut line);
            let read_len = read_len.map_err(|error| self.read_error(&error))?;
            if input.limit() == 0 {
                let mib = FILE_SIZE_BYTES_MAX >> 20;
                return Err(self.file_error(format!(
                    "is larger than {mib} MiB: merge equal sizes into 'SIZE COUNT' lines"
                )));
            }
            if read_len == 0 {
                return self.finish();
            }
            self.line += 1;
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            self.read_line(text).map_err(|what| self.line_error(what))?;
        }
    }

    /// Parses a line and counts its items.
    fn read_line(&mut self, mut text: &[u8]) -> Result<(), String> {
        if text.len() > LINE_LEN_MAX {
            return Err(format!(
                "the line has more than {LINE_LEN_MAX} bytes: give lines of 'SIZE COUNT'"
            ));
        }
        // Some editors write a byte order mark at the start of a file.
        if self.line == 1 {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        match parse(text)? {
            HistogramLine::Blank => {}
            HistogramLine::Header if self.form.is_none() && !self.has_header => {
                self.has_header = true;
            }
            HistogramLine::Header => {
                return Err(
                    "a second line without numbers: give 'SIZE COUNT', or # before a comment"
                        .to_owned(),
                );
            }
            HistogramLine::End => {
                if self.form.is_some_and(|(form, _)| form != Form::Stats) {
                    return Err("'END' in a file that is not from `stats sizes`: remove the line"
                        .to_owned());
                }
            }
            HistogramLine::Items { form, size_bytes, items } => {
                self.check_items(form, size_bytes)?;
                // Items of a bin are counted with the largest size of the bin. If the sum of these sizes is below the
                // limit, then so is the sum of the smaller sizes that `spread` estimates later.
                self.seen.add(size_bytes, items).map_err(limit_text)?;
            }
        }
        Ok(())
    }

    /// Checks the form and the size of a line with items.
    fn check_items(&mut self, form: Form, size_bytes: usize) -> Result<(), String> {
        let &mut (first_form, first_line) = self.form.get_or_insert((form, self.line));
        if form != first_form {
            let (found, expected) = (form.describe(), first_form.describe());
            return Err(format!(
                "the line has {found}, but line {first_line} has {expected}: use one form for all lines"
            ));
        }
        // The upper end of the last bin is the maximum size of an item, rounded up to a multiple of the bin width.
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

    /// Returns the sizes after the last line. Fails if there are no items.
    fn finish(self) -> Result<SizesSeen, AdvisorError> {
        if self.seen.item_count() == 0 {
            return Err(self.file_error("has no items: give lines of 'SIZE COUNT'".to_owned()));
        }
        if !matches!(self.form, Some((Form::Stats, _))) {
            return Ok(self.seen);
        }
        let seen = spread(&self.seen.bins().collect(), &BTreeMap::new());
        seen.map_err(|error| self.line_error(limit_text(error)))
    }

    /// Returns the error of a file that cannot be read.
    fn read_error(&self, error: &io::Error) -> AdvisorError {
        self.file_error(format!("cannot be read: {error}; give a text file of 'SIZE COUNT' lines"))
    }

    /// Returns the error of the current line.
    fn line_error(&self, what: String) -> AdvisorError {
        AdvisorError::Line { file: self.file.clone(), line: self.line, what }
    }

    /// Returns the error of the whole file.
    fn file_error(&self, what: String) -> AdvisorError {
        AdvisorError::File { file: self.file.clone(), what }
    }
}

/// Returns the error text of items above the limits.
fn limit_text(_: LimitExceeded) -> String {
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
    fn every_form_of_line_is_valid() {
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
            ("size,count", HistogramLine::Header),
            ("\"size\" \"count\"", HistogramLine::Header),
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
            let error = parse(line).expect_err("the line is invalid");
            assert!(error.contains(reason), "{line:?}: {error}");
        }
    }

    #[test]
    fn formatted_lines_are_valid_and_random_lines_do_not_panic() {
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
