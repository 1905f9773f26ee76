//! The rows of the reply to a `stats` command.

use std::collections::BTreeMap;

/// A row `STAT name value` of the reply to a `stats` command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the statistic.
    pub name: String,
    /// The value of the statistic, which may be empty or contain spaces.
    pub value: String,
}

impl Row {
    /// Parses a line `STAT name value`. Returns `None` if the line does not have this form.
    pub fn parse(line: &[u8]) -> Option<Row> {
        let text = std::str::from_utf8(line).ok()?.strip_prefix("STAT ")?;
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        Some(Row { name: name.to_owned(), value: value.to_owned() })
    }

    /// Returns CLASS and FIELD of a row that is named `CLASS:FIELD` (in `stats slabs`) or `items:CLASS:FIELD` (in
    /// `stats items`). Returns `None` for another name.
    pub fn class_field(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix("items:").unwrap_or(&self.name).split_once(':')
    }
}

/// The rows of the reply to one `stats` command, in the order of the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows(pub Vec<Row>);

/// A class as `stats slabs` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabClass {
    /// The number of the class.
    pub number: u64,
    /// The size of a chunk in bytes.
    pub chunk_size_bytes: u64,
    /// The size of all chunks of one page together, in bytes.
    pub page_size_bytes: u64,
    /// The number of pages that the class owns.
    pub pages: u64,
}

impl Rows {
    /// Returns the first row with this name.
    pub fn get(&self, name: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.name == name)
    }

    /// Returns the classes that these rows of `stats slabs` describe, sorted by chunk size. A number whose row is
    /// missing or invalid is 0.
    pub fn slab_classes(&self) -> Vec<SlabClass> {
        const FIELDS: [&str; 3] = ["chunk_size", "chunks_per_page", "total_pages"];
        let mut fields: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
        for row in &self.0 {
            let Some((class, field)) = row.class_field() else { continue };
            let field = FIELDS.iter().position(|&known| known == field);
            if let (Ok(class), Some(field)) = (class.parse(), field) {
                fields.entry(class).or_default()[field] = row.value.parse().unwrap_or(0);
            }
        }
        let class = |(number, [chunk_size_bytes, chunks, pages]): (u64, [u64; 3])| SlabClass {
            number,
            chunk_size_bytes,
            page_size_bytes: chunk_size_bytes.saturating_mul(chunks),
            pages,
        };
        let mut classes: Vec<SlabClass> = fields.into_iter().map(class).collect();
        classes.sort_by_key(|class| class.chunk_size_bytes);
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Rows, SlabClass};

    fn rows(lines: &[&str]) -> Rows {
        let row = |line: &&str| Row::parse(line.as_bytes()).expect("the line is a row");
        Rows(lines.iter().map(row).collect())
    }

    #[test]
    fn a_value_may_be_empty_or_contain_spaces() {
        let rows = rows(&["STAT version 1.6 x", "STAT empty"]);
        assert_eq!(rows.get("version").map(|row| row.value.as_str()), Some("1.6 x"));
        assert_eq!(rows.get("empty").map(|row| row.value.as_str()), Some(""));
        assert_eq!(rows.get("other"), None);
        assert_eq!(Row::parse(b"VALUE a 0 1"), None);
        assert_eq!(Row::parse(b"STAT \xff"), None);
    }

    #[test]
    fn classes_are_sorted_by_chunk_size() {
        let rows = rows(&[
            "STAT 10:chunk_size 96",
            "STAT 10:chunks_per_page 10922",
            "STAT 10:total_pages 3",
            "STAT 2:chunk_size 120",
            "STAT active_slabs 2",
        ]);
        let class = |number, chunk_size_bytes, page_size_bytes, pages| SlabClass {
            number,
            chunk_size_bytes,
            page_size_bytes,
            pages,
        };
        assert_eq!(rows.slab_classes(), [class(10, 96, 96 * 10922, 3), class(2, 120, 0, 0)]);
    }

    #[test]
    fn the_name_of_a_row_contains_its_class_and_field() {
        let rows = rows(&["STAT items:7:number 4", "STAT 7:used_chunks 4", "STAT pid 1"]);
        let fields: Vec<_> = rows.0.iter().map(Row::class_field).collect();
        assert_eq!(fields, [Some(("7", "number")), Some(("7", "used_chunks")), None]);
    }
}
