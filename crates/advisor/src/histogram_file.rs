//! Sizes from a text file.
//!
//! Lines may come in any order, and a size more than once: counts of a size add up. Laws: a file has one form
//! from its first line to its last; not more than [`FILE_SIZE_BYTES_MAX`] bytes of it are read, nor more than
//! [`LINE_LEN_MAX`] of a line are kept.

use crate::error::AdvisorError;
use crate::histogram_line::{self, Form, HistogramLine};
use crate::sizes_seen::{BYTES_MAX, ITEMS_MAX, SizesSeen, TooMuch};
use crate::spread::{BAR_WIDTH_BYTES, spread};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The most bytes of a file.
pub const FILE_SIZE_BYTES_MAX: u64 = 256 << 20;
/// The most bytes of a line.
pub const LINE_LEN_MAX: usize = 1024;

/// Reads the file, `-` for the standard input; no item may be larger than `item_size_max`.
pub fn read(path: &Path, item_size_max: usize) -> Result<SizesSeen, AdvisorError> {
    let file = path.display().to_string();
    let failed = |error: io::Error| {
        let what = format!("cannot be read: {error}; give a text file of 'SIZE COUNT' lines");
        AdvisorError::File { file: file.clone(), what }
    };
    if file == "-" {
        return Histogram::new("the standard input", item_size_max).read(io::stdin().lock());
    }
    let input = File::open(path).map_err(failed)?;
    if input.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Histogram::new(&file, item_size_max).read(BufReader::new(input))
}

struct Histogram {
    file: String,
    item_size_max: usize,
    line: u64,
    form: Option<(Form, u64)>,
    has_words: bool,
    seen: SizesSeen,
    bars: BTreeMap<usize, u64>,
}

impl Histogram {
    fn new(file: &str, item_size_max: usize) -> Histogram {
        Histogram {
            file: file.to_owned(),
            item_size_max,
            line: 0,
            form: None,
            has_words: false,
            seen: SizesSeen::default(),
            bars: BTreeMap::new(),
        }
    }

    fn read(mut self, input: impl BufRead) -> Result<SizesSeen, AdvisorError> {
        let mut input = input.take(FILE_SIZE_BYTES_MAX + 1);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut piece = (&mut input).take(LINE_LEN_MAX as u64 + 1);
            let read = piece.read_until(b'\n', &mut line).map_err(|error| self.broken(&error))?;
            if input.limit() == 0 {
                let mib = FILE_SIZE_BYTES_MAX >> 20;
                return Err(self.wrong_file(&format!(
                    "has more than {mib} MiB: count equal sizes together, as 'SIZE COUNT' lines"
                )));
            }
            if read == 0 {
                return self.finish();
            }
            self.line += 1;
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            if text.len() > LINE_LEN_MAX {
                return Err(self.wrong(&format!(
                    "the line has more than {LINE_LEN_MAX} bytes: give lines of 'SIZE COUNT'"
                )));
            }
            // A byte order mark is an editor's, not the user's.
            let text = if self.line == 1 {
                text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
            } else {
                text
            };
            let parsed = histogram_line::parse(text).map_err(|what| self.wrong(&what))?;
            self.take_line(parsed)?;
        }
    }

    fn take_line(&mut self, line: HistogramLine) -> Result<(), AdvisorError> {
        match line {
            HistogramLine::Blank => Ok(()),
            HistogramLine::Words if self.form.is_none() && !self.has_words => {
                self.has_words = true;
                Ok(())
            }
            HistogramLine::Words => {
                Err(self
                    .wrong("words where numbers were: give 'SIZE COUNT', or # before a comment"))
            }
            HistogramLine::End => match self.form {
                None | Some((Form::Stats, _)) => Ok(()),
                Some(_) => Err(self.wrong("'END' in a file that is not of `stats sizes`: drop it")),
            },
            HistogramLine::Items { form, size_bytes, items } => {
                self.take_items(form, size_bytes, items)
            }
        }
    }

    fn take_items(
        &mut self,
        form: Form,
        size_bytes: usize,
        items: u64,
    ) -> Result<(), AdvisorError> {
        let &mut (first_form, first_line) = self.form.get_or_insert((form, self.line));
        if form != first_form {
            return Err(self.wrong(&format!(
                "the line has {}, where line {first_line} has {}: give all lines one form",
                form.describe(),
                first_form.describe()
            )));
        }
        // The last bar ends at the limit or within a step above it.
        let (what, max) = match form {
            Form::Stats => ("a bar up to", self.item_size_max.next_multiple_of(BAR_WIDTH_BYTES)),
            _ => ("an item of", self.item_size_max),
        };
        if size_bytes > max {
            return Err(self.wrong(&format!(
                "{what} {size_bytes} bytes is above the largest item, {max} bytes: give the server's -I \
                 as --item-size-max, or drop the line"
            )));
        }
        if form == Form::Stats && !size_bytes.is_multiple_of(BAR_WIDTH_BYTES) {
            return Err(self.wrong(&format!(
                "{size_bytes} is no bar of `stats sizes`, which go by {BAR_WIDTH_BYTES} bytes: give exact \
                 sizes without STAT"
            )));
        }
        match form {
            Form::Stats => {
                // As if all were at the bar's end: so no sum can overflow, here or later.
                let added = self.seen.add(size_bytes, items);
                if added.is_ok() {
                    *self.bars.entry(size_bytes).or_default() += items;
                }
                added
            }
            Form::Sizes | Form::SizesAndCounts => self.seen.add(size_bytes, items),
        }
        .map_err(|TooMuch| self.too_much())
    }

    fn finish(self) -> Result<SizesSeen, AdvisorError> {
        if self.seen.item_count() == 0 {
            return Err(self.wrong_file("holds no item: give lines of 'SIZE COUNT'"));
        }
        match self.form {
            Some((Form::Stats, _)) => {
                let seen = spread(&self.bars, &BTreeMap::new());
                seen.map_err(|TooMuch| self.too_much())
            }
            _ => Ok(self.seen),
        }
    }

    fn too_much(&self) -> AdvisorError {
        self.wrong(&format!(
            "the items up to here are more than {ITEMS_MAX} or have more than {BYTES_MAX} bytes, more \
             than any server holds: divide all counts"
        ))
    }

    fn broken(&self, error: &io::Error) -> AdvisorError {
        self.wrong_file(&format!("cannot be read: {error}; give a text file of 'SIZE COUNT' lines"))
    }

    fn wrong(&self, what: &str) -> AdvisorError {
        AdvisorError::Line { file: self.file.clone(), line: self.line, what: what.to_owned() }
    }

    fn wrong_file(&self, what: &str) -> AdvisorError {
        AdvisorError::File { file: self.file.clone(), what: what.to_owned() }
    }
}

#[cfg(test)]
mod tests;
