//! Sizes from a text file.
//!
//! ```text
//!   # a comment, or nothing          96 35          items of 96 bytes: 35
//!   size,count   a header            96,35          the same; also by tab or semicolon
//!   END          after stats         96             one item of 96 bytes
//!                                    STAT 96 35     a bar of `stats sizes`: items of 65 to 96 bytes
//! ```
//!
//! Lines may come in any order; counts of a size add up. A file has one form from its first line to its last; not more
//! than [`FILE_SIZE_BYTES_MAX`] bytes of it are read, nor more than [`LINE_LEN_MAX`] of a line kept.

use crate::error::{AdvisorError, shown};
use crate::sizes_seen::{BAR_WIDTH_BYTES, BYTES_MAX, ITEMS_MAX, SizesSeen, TooMuch, spread};
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

/// How the lines of a file are written; one for the whole file.
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

pub const FILE_SIZE_BYTES_MAX: u64 = 256 << 20;
pub const LINE_LEN_MAX: usize = 1024;

/// Reads the file, `-` for the standard input; no item may be larger than `item_size_max`.
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
    /// With the line that had it first.
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
                    "has more than {mib} MiB: count equal sizes together, as 'SIZE COUNT' lines"
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
        // A byte order mark is an editor's, not the user's.
        if self.line == 1 {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        match parse(text)? {
            HistogramLine::Blank => {}
            HistogramLine::Words if self.form.is_none() && !self.has_words => self.has_words = true,
            HistogramLine::Words => {
                return Err(
                    "words where numbers were: give 'SIZE COUNT', or # before a comment".to_owned()
                );
            }
            HistogramLine::End => {
                if self.form.is_some_and(|(form, _)| form != Form::Stats) {
                    return Err("'END' in a file that is not of `stats sizes`: drop it".to_owned());
                }
            }
            HistogramLine::Items { form, size_bytes, items } => {
                self.check_items(form, size_bytes)?;
                // Bars as if all were at the end: so no sum can overflow, here or later.
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
                "the line has {has}, where line {first_line} has {had}: give all lines one form"
            ));
        }
        // The last bar ends at the limit or within a step above it.
        let (what, max) = match form {
            Form::Stats => ("a bar up to", self.item_size_max.next_multiple_of(BAR_WIDTH_BYTES)),
            _ => ("an item of", self.item_size_max),
        };
        if size_bytes > max {
            return Err(format!(
                "{what} {size_bytes} bytes is above the largest item, {max} bytes: give the server's -I \
                 as --item-size-max, or drop the line"
            ));
        }
        if form == Form::Stats && !size_bytes.is_multiple_of(BAR_WIDTH_BYTES) {
            return Err(format!(
                "{size_bytes} is no bar of `stats sizes`, which go by {BAR_WIDTH_BYTES} bytes: give exact \
                 sizes without STAT"
            ));
        }
        Ok(())
    }

    fn finish(self) -> Result<SizesSeen, AdvisorError> {
        if self.seen.item_count() == 0 {
            return Err(self.wrong_file("holds no item: give lines of 'SIZE COUNT'".to_owned()));
        }
        if !matches!(self.form, Some((Form::Stats, _))) {
            return Ok(self.seen);
        }
        let seen = spread(&self.seen.bars().collect(), &BTreeMap::new());
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
        "the items up to here are more than {ITEMS_MAX} or have more than {BYTES_MAX} bytes, more \
         than any server holds: divide all counts"
    )
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod line_tests {
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
