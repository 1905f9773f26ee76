//! How statistics are written: as lines of text, or as packets of the binary protocol.

use slabwise_protocol::binary;
use slabwise_protocol::text;
use std::fmt::Display;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsForm {
    /// `STAT <name> <value>`, then `END`.
    Text,
    /// A packet each, then one without a name.
    Binary {
        /// What every packet repeats of the request.
        opaque: [u8; 4],
    },
}

/// Where statistics are written to, and how.
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

    /// A list that `write` appends as text, its end included; in packets it is one statistic's value.
    pub(crate) fn list(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        match self.form {
            StatsForm::Text => write(self.out),
            StatsForm::Binary { opaque } => {
                binary::compose::stat_of(self.out, opaque, name, write);
                self.end();
            }
        }
    }

    /// An order was carried out; packets say so by ending.
    pub(crate) fn done(&mut self, line: &[u8]) {
        match self.form {
            StatsForm::Text => self.out.extend_from_slice(line),
            StatsForm::Binary { .. } => self.end(),
        }
    }

    /// There is nothing to answer.
    pub(crate) fn refuse(&mut self, line: &[u8]) {
        match self.form {
            StatsForm::Text => self.out.extend_from_slice(line),
            StatsForm::Binary { opaque } => binary::compose::stats_refused(self.out, opaque),
        }
    }
}
