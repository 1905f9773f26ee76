//! The rows of `stats`.

use std::collections::BTreeMap;

/// A row of `stats`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its value, which may be empty or hold spaces.
    pub value: String,
}

impl Row {
    /// Reads `STAT name value`; `None`: the line is no row.
    pub fn parse(line: &[u8]) -> Option<Row> {
        let text = std::str::from_utf8(line).ok()?.strip_prefix("STAT ")?;
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        Some(Row { name: name.to_owned(), value: value.to_owned() })
    }

    /// The class and the field of a row `CLASS:FIELD` of `stats slabs`, or `items:CLASS:FIELD` of `stats items`.
    pub fn class_field(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix("items:").unwrap_or(&self.name).split_once(':')
    }
}

/// The rows of one `stats` command, in the server's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows(pub Vec<Row>);

/// One class by `stats slabs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabClass {
    /// The server's number of the class.
    pub number: u64,
    /// Bytes of a chunk.
    pub chunk_size_bytes: u64,
    /// Bytes of a page that its chunks fill.
    pub page_size_bytes: u64,
    /// Pages that it holds.
    pub pages: u64,
}

impl Rows {
    /// The row of this name.
    pub fn get(&self, name: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.name == name)
    }

    /// The classes of `stats slabs`, by chunk size; a field that is missing or no number counts as 0.
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
