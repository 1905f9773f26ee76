//! Writes statistics as lines of text or as packets of the binary protocol.

use slabwise_protocol::binary;
use slabwise_protocol::text;
use std::fmt::Display;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsForm {
    /// `STAT <name> <value>`, then `END`.
    Text,
    /// One packet per statistic, then a packet without a name.
    Binary {
        /// The request's opaque, which every packet repeats.
        opaque: [u8; 4],
    },
}

/// Appends statistics to an output in one of the forms.
pub(crate) struct Rows<'o> {
    out: &'o mut Vec<u8>,
    pub(crate) form: StatsForm,
}

impl<'o> Rows<'o> {
    pub(crate) fn new(out: &'o mut Vec<u8>, form: StatsForm) -> Rows<'o> {
        Rows { out, form }
    }

    pub(crate) fn text(out: &'o mut Vec<u8>) -> Rows<'o> {
        Rows::new(out, StatsForm::Text)
    }

    pub(crate) fn row(&mut self, name: impl Display, value: impl Display) {
        match self.form {
            StatsForm::Text => {
                text::stat_line(self.out, name, value);
            }
            StatsForm::Binary { opaque } => binary::compose::stat(self.out, opaque, name, value),
        }
    }

    pub(crate) fn all(&mut self, rows: impl IntoIterator<Item = (impl Display, impl Display)>) {
        rows.into_iter().for_each(|(name, value)| self.row(name, value));
    }

    pub(crate) fn end(&mut self) {
        match self.form {
            StatsForm::Text => self.out.extend_from_slice(text::reply::END),
            StatsForm::Binary { opaque } => binary::compose::stats_end(self.out, opaque),
        }
    }

    /// Appends a list that `write` formats as text, including its end. In packets it is the value of one statistic.
    pub(crate) fn list(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        match self.form {
            StatsForm::Text => write(self.out),
            StatsForm::Binary { opaque } => {
                binary::compose::stat_of(self.out, opaque, name, write);
                self.end();
            }
        }
    }

    /// Confirms a command: in text with `line`, in packets with the end of the statistics.
    pub(crate) fn done(&mut self, line: &[u8]) {
        match self.form {
            StatsForm::Text => self.out.extend_from_slice(line),
            StatsForm::Binary { .. } => self.end(),
        }
    }

    /// Refuses a command: in text with `line`.
    pub(crate) fn refuse(&mut self, line: &[u8]) {
        match self.form {
            StatsForm::Text => self.out.extend_from_slice(line),
            StatsForm::Binary { opaque } => binary::compose::stats_refused(self.out, opaque),
        }
    }
}
