//! Writes statistics as lines of text or as packets of the binary protocol.

use slabwise_protocol::binary;
use slabwise_protocol::text;
use std::fmt::Display;

/// The form in which statistics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsForm {
    /// One line `STAT <name> <value>` per statistic, then the line `END`.
    Text,
    /// One packet per statistic, then a packet without a name.
    Binary {
        /// The four opaque bytes of the request, which every packet repeats.
        opaque: [u8; 4],
    },
}

/// Appends statistics to an output, as text or as packets.
pub(crate) struct StatsRows<'o> {
    out: &'o mut Vec<u8>,
    pub(crate) form: StatsForm,
}

impl<'o> StatsRows<'o> {
    pub(crate) fn new(out: &'o mut Vec<u8>, form: StatsForm) -> StatsRows<'o> {
        StatsRows { out, form }
    }

    pub(crate) fn text(out: &'o mut Vec<u8>) -> StatsRows<'o> {
        StatsRows::new(out, StatsForm::Text)
    }

    /// Appends one statistic.
    pub(crate) fn add(&mut self, name: impl Display, value: impl Display) {
        match self.form {
            StatsForm::Text => {
                text::write_stat_line(self.out, name, value);
            }
            StatsForm::Binary { opaque } => {
                binary::compose::write_stat(self.out, opaque, name, value)
            }
        }
    }

    /// Appends several statistics.
    pub(crate) fn add_all(&mut self, rows: impl IntoIterator<Item = (impl Display, impl Display)>) {
        rows.into_iter().for_each(|(name, value)| self.add(name, value));
    }

    /// Appends the line or packet that ends the statistics.
    pub(crate) fn end(&mut self) {
        match self.form {
            StatsForm::Text => self.out.extend_from_slice(text::reply::END),
            StatsForm::Binary { opaque } => binary::compose::write_stats_end(self.out, opaque),
        }
    }

    /// Appends a list that `write` formats as text, including the list's last line. In the binary protocol the list
    /// becomes the value of one statistic, and the packet that ends the statistics follows.
    pub(crate) fn add_list(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        match self.form {
            StatsForm::Text => write(self.out),
            StatsForm::Binary { opaque } => {
                binary::compose::write_stat_with(self.out, opaque, name, write);
                self.end();
            }
        }
    }

    /// Confirms a command such as `stats reset`: in text with `line`, in the binary protocol with the packet that ends
    /// the statistics.
    pub(crate) fn confirm(&mut self, line: &[u8]) {
        match self.form {
            StatsForm::Text => self.out.extend_from_slice(line),
            StatsForm::Binary { .. } => self.end(),
        }
    }

    /// Refuses a request for statistics: in text with `line`, in the binary protocol with an error packet.
    pub(crate) fn refuse(&mut self, line: &[u8]) {
        match self.form {
            StatsForm::Text => self.out.extend_from_slice(line),
            StatsForm::Binary { opaque } => binary::compose::write_stats_refused(self.out, opaque),
        }
    }
}
