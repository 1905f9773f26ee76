//! The columns of the two tables: their titles, their values, and how to sort by them.

use crate::numbers;
use crate::rates::{ClassReading, Reading};
use crate::server::Server;
use std::cmp::Ordering;

/// A column of a table whose rows are of type `R`.
#[derive(Debug)]
pub struct Column<R> {
    /// The title.
    pub title: &'static str,
    /// The width in characters.
    pub width: u16,
    /// True if the cells are left-aligned.
    pub left: bool,
    /// True if sorting by this column starts with the largest value.
    pub descending: bool,
    /// Returns the value of a row in this column.
    pub value: fn(&R) -> Value,
}

/// The value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A position in the arguments, and the text that is shown.
    Position(usize, String),
    /// A number of things.
    Count(u64),
    /// A rate per second.
    Rate(f64),
    /// A ratio from 0 to 1.
    Ratio(f64),
    /// A number of seconds.
    Seconds(u64),
    /// The used bytes and the limit.
    Used(u64, u64),
    /// The number of a class, and whether it is retired.
    Class(u64, bool),
    /// The value is not known, or the server does not have it.
    Unknown,
}

impl Value {
    /// Returns the text of a cell with this value.
    pub fn text(&self) -> String {
        match self {
            Value::Text(text) | Value::Position(_, text) => text.clone(),
            Value::Count(count) => numbers::count(*count as f64),
            Value::Rate(rate) => numbers::rate(*rate),
            Value::Ratio(ratio) => numbers::percent(*ratio),
            Value::Seconds(seconds) => numbers::seconds(*seconds),
            Value::Used(used, limit) => {
                format!("{}/{}", numbers::bytes(*used), numbers::bytes(*limit))
            }
            Value::Class(number, retired) => format!("{}{number}", if *retired { "*" } else { "" }),
            Value::Unknown => "-".to_owned(),
        }
    }

    /// Returns the number by which rows are sorted; `None` for texts and unknown values.
    fn number(&self) -> Option<f64> {
        match self {
            Value::Position(position, _) => Some(*position as f64),
            Value::Count(number) | Value::Seconds(number) | Value::Class(number, _) => {
                Some(*number as f64)
            }
            Value::Rate(number) | Value::Ratio(number) => Some(*number),
            Value::Used(used, limit) => Some(*used as f64 / (*limit).max(1) as f64),
            Value::Text(_) | Value::Unknown => None,
        }
    }

    /// Compares two values of one column. An unknown value is after every known one, in both directions.
    pub fn compare(&self, other: &Value, descending: bool) -> Ordering {
        let order = match (self, other) {
            (Value::Unknown, Value::Unknown) => return Ordering::Equal,
            (Value::Unknown, _) => return Ordering::Greater,
            (_, Value::Unknown) => return Ordering::Less,
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            _ => self.number().unwrap_or(0.0).total_cmp(&other.number().unwrap_or(0.0)),
        };
        if descending { order.reverse() } else { order }
    }
}

/// Returns a value, or [`Value::Unknown`] for `None`.
fn known<T>(value: Option<T>, kind: fn(T) -> Value) -> Value {
    value.map_or(Value::Unknown, kind)
}

/// Returns a value of the last reading, or [`Value::Unknown`] if there is none.
fn of_reading(server: &Server, value: fn(&Reading) -> Value) -> Value {
    server.reading().map_or(Value::Unknown, value)
}

/// The columns of the table of servers.
pub const SERVER_COLUMNS: [Column<Server>; 9] = [
    Column {
        title: "server",
        width: 15,
        left: true,
        descending: false,
        value: |server| Value::Position(server.position, server.address.clone()),
    },
    Column {
        title: "req/s",
        width: 6,
        left: false,
        descending: true,
        value: |server| of_reading(server, |r| known(r.rates.requests_per_second, Value::Rate)),
    },
    Column {
        title: "hits",
        width: 6,
        left: false,
        descending: true,
        value: |server| of_reading(server, |r| known(r.rates.hit_ratio, Value::Ratio)),
    },
    Column {
        title: "memory",
        width: 11,
        left: false,
        descending: true,
        value: |server| {
            of_reading(server, |r| {
                Value::Used(r.sample.totals.memory_bytes, r.sample.totals.memory_limit_bytes)
            })
        },
    },
    Column {
        title: "evict/s",
        width: 7,
        left: false,
        descending: true,
        value: |server| of_reading(server, |r| known(r.rates.evictions_per_second, Value::Rate)),
    },
    Column {
        title: "conns",
        width: 5,
        left: false,
        descending: true,
        value: |server| of_reading(server, |r| Value::Count(r.sample.totals.connections)),
    },
    Column {
        title: "items",
        width: 5,
        left: false,
        descending: true,
        value: |server| of_reading(server, |r| Value::Count(r.sample.totals.items)),
    },
    Column {
        title: "moves/s",
        width: 7,
        left: false,
        descending: true,
        value: |server| of_reading(server, |r| known(r.rates.page_moves_per_second, Value::Rate)),
    },
    Column {
        title: "version",
        width: 7,
        left: true,
        descending: false,
        value: |server| of_reading(server, |r| Value::Text(r.sample.totals.version.clone())),
    },
];

/// The columns of the table of classes.
pub const CLASS_COLUMNS: [Column<ClassReading>; 9] = [
    Column {
        title: "class",
        width: 5,
        left: false,
        descending: false,
        value: |row| Value::Class(row.class.number, row.class.retired),
    },
    Column {
        title: "chunk B",
        width: 7,
        left: false,
        descending: false,
        value: |row| Value::Count(row.class.chunk_size_bytes),
    },
    Column {
        title: "pages",
        width: 6,
        left: false,
        descending: true,
        value: |row| Value::Count(row.class.pages),
    },
    Column {
        title: "items",
        width: 7,
        left: false,
        descending: true,
        value: |row| Value::Count(row.class.items),
    },
    Column {
        title: "tail age",
        width: 8,
        left: false,
        descending: true,
        value: |row| known(row.class.tail_age_seconds, Value::Seconds),
    },
    Column {
        title: "hits/s",
        width: 7,
        left: false,
        descending: true,
        value: |row| known(row.hits_per_second, Value::Rate),
    },
    Column {
        title: "sets/s",
        width: 7,
        left: false,
        descending: true,
        value: |row| known(row.sets_per_second, Value::Rate),
    },
    Column {
        title: "evict/s",
        width: 7,
        left: false,
        descending: true,
        value: |row| known(row.evictions_per_second, Value::Rate),
    },
    Column {
        title: "free chunks",
        width: 11,
        left: false,
        descending: true,
        value: |row| Value::Count(row.class.free_chunks),
    },
];

#[cfg(test)]
mod tests {
    use super::{CLASS_COLUMNS, SERVER_COLUMNS, Value};
    use crate::rates::ClassReading;
    use crate::sample::Class;
    use crate::server::Server;
    use std::cmp::Ordering;

    #[test]
    fn an_unknown_value_is_last_in_both_directions() {
        for descending in [false, true] {
            let order = Value::Unknown.compare(&Value::Rate(1.0), descending);
            assert_eq!(order, Ordering::Greater);
            let order = Value::Rate(1.0).compare(&Value::Unknown, descending);
            assert_eq!(order, Ordering::Less);
        }
        assert_eq!(Value::Rate(2.0).compare(&Value::Rate(1.0), true), Ordering::Less);
        let texts = (Value::Text("a".to_owned()), Value::Text("b".to_owned()));
        assert_eq!(texts.0.compare(&texts.1, false), Ordering::Less);
        let used = (Value::Used(1, 2), Value::Used(3, 8));
        assert_eq!(used.0.compare(&used.1, true), Ordering::Less, "used fractions are compared");
    }

    #[test]
    fn the_cells_of_a_server_that_does_not_reply_are_unknown() {
        let server = Server::new(0, "a:1".to_owned());
        let texts = SERVER_COLUMNS.map(|column| (column.value)(&server).text());
        assert_eq!(texts, ["a:1", "-", "-", "-", "-", "-", "-", "-", "-"]);
    }

    #[test]
    fn the_cells_of_a_class_have_short_numbers() {
        let class = Class {
            number: 12,
            chunk_size_bytes: 1184,
            pages: 3,
            items: 45_678,
            free_chunks: 9,
            tail_age_seconds: Some(75),
            retired: true,
            ..Class::default()
        };
        let row = ClassReading {
            class,
            hits_per_second: Some(1.5),
            sets_per_second: Some(0.0),
            evictions_per_second: None,
        };
        let texts = CLASS_COLUMNS.map(|column| (column.value)(&row).text());
        assert_eq!(texts, ["*12", "1184", "3", "45.7k", "1m15s", "1.5", "0", "-", "9"]);
    }
}
