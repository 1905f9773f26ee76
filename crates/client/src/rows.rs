//! The rows of `stats`.

use std::collections::BTreeMap;

/// A row of `stats`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name.
    pub name: String,
    /// The value, which may be empty or contain spaces.
    pub value: String,
}

impl Row {
    /// Parses `STAT name value`; `None` if the line is not a row.
    pub fn parse(line: &[u8]) -> Option<Row> {
        let text = std::str::from_utf8(line).ok()?.strip_prefix("STAT ")?;
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        Some(Row { name: name.to_owned(), value: value.to_owned() })
    }

    /// Returns the class and the field of a row `CLASS:FIELD` of `stats slabs` or `items:CLASS:FIELD` of `stats items`.
    pub fn class_field(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix("items:").unwrap_or(&self.name).split_once(':')
    }
}

/// The rows of one `stats` command, in the server's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows(pub Vec<Row>);

/// A class of `stats slabs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabClass {
    /// The number of the class.
    pub number: u64,
    /// The size of a chunk.
    pub chunk_size_bytes: u64,
    /// The size of all chunks of a page.
    pub page_size_bytes: u64,
    /// The number of pages of the class.
    pub pages: u64,
}

impl Rows {
    /// Returns the row with this name.
    pub fn get(&self, name: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.name == name)
    }

    /// Returns the classes of `stats slabs`, sorted by chunk size. A missing or invalid field is 0.
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
        let row = |line: &&str| Row::parse(line.as_bytes()).expect("a row");
        Rows(lines.iter().map(row).collect())
    }

    #[test]
    fn a_row_has_a_name_and_a_value_that_may_hold_spaces() {
        let rows = rows(&["STAT version 1.6 x", "STAT empty"]);
        assert_eq!(rows.get("version").map(|row| row.value.as_str()), Some("1.6 x"));
        assert_eq!(rows.get("empty").map(|row| row.value.as_str()), Some(""));
        assert_eq!(rows.get("other"), None);
        assert_eq!(Row::parse(b"VALUE a 0 1"), None);
        assert_eq!(Row::parse(b"STAT \xff"), None);
    }

    #[test]
    fn classes_are_sorted_by_their_chunks() {
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
    fn rows_of_items_and_slabs_name_their_class() {
        let rows = rows(&["STAT items:7:number 4", "STAT 7:used_chunks 4", "STAT pid 1"]);
        let fields: Vec<_> = rows.0.iter().map(Row::class_field).collect();
        assert_eq!(fields, [Some(("7", "number")), Some(("7", "used_chunks")), None]);
    }
}
