//! The state of the terminal view: servers, selections, sorting and filters. Nothing here draws or waits.

use crate::columns::{CLASS_COLUMNS, Column, SERVER_COLUMNS};
use crate::poll::Update;
use crate::pool;
use crate::rates::ClassReading;
use crate::server::{HISTORY_LEN_MAX, Server};
use slabwise_fleet::outliers::Difference;
use std::collections::VecDeque;
use std::time::Duration;

/// The state of the view.
#[derive(Debug)]
pub struct State {
    /// The servers in the order of the arguments.
    pub servers: Vec<Server>,
    /// The table that the keys apply to.
    pub focus: Focus,
    /// The selection, the order and the filter of the table of servers.
    pub server_list: List,
    /// The selection, the order and the filter of the table of classes.
    pub class_list: List,
    /// What the next key means.
    pub mode: Mode,
    /// The time between two samples.
    pub interval: Duration,
    /// How each server differs from the others, since the last comparison.
    differences: Vec<Vec<Difference>>,
    /// While the view is paused: the updates that have arrived since then.
    pending: Option<VecDeque<Update>>,
}

/// One of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The table of servers.
    Servers,
    /// The table of the classes of the selected server.
    Classes,
}

/// What the next key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A command.
    Command,
    /// A character of the filter of the focused table.
    Filter,
    /// The end of the list of keys.
    Help,
}

/// The selection, the order and the filter of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The position of the column by which the rows are sorted.
    pub sort: usize,
    /// True if the order is the reverse of the column's own order.
    pub reversed: bool,
    /// The text that rows must contain.
    pub filter: String,
    /// The id of the selected row. If it is not among the rows, the first row is selected.
    pub selected: u64,
}

/// A row of a table.
pub trait Row {
    /// Returns the id of the row, which stays the same when the order changes.
    fn id(&self) -> u64;
    /// Returns the texts that a filter searches.
    fn searched(&self) -> Vec<String>;
}

impl Row for Server {
    fn id(&self) -> u64 {
        self.position as u64
    }

    fn searched(&self) -> Vec<String> {
        let version = self.reading().map(|reading| reading.sample.totals.version.clone());
        [Some(self.address.clone()), version].into_iter().flatten().collect()
    }
}

impl Row for ClassReading {
    fn id(&self) -> u64 {
        self.class.number
    }

    fn searched(&self) -> Vec<String> {
        vec![self.class.number.to_string(), self.class.chunk_size_bytes.to_string()]
    }
}

/// The number of rows by which a page key moves the selection.
pub const PAGE_ROWS: i64 = 10;

impl State {
    /// Returns the state before the first sample.
    pub fn new(addresses: impl IntoIterator<Item = String>, interval: Duration) -> State {
        let servers = addresses.into_iter().enumerate();
        State {
            servers: servers.map(|(position, address)| Server::new(position, address)).collect(),
            focus: Focus::Servers,
            server_list: List::default(),
            // Chunk sizes are in order, unlike the numbers of classes that slabwise has learned.
            class_list: List { sort: 1, ..List::default() },
            mode: Mode::Command,
            interval,
            differences: Vec::new(),
            pending: None,
        }
    }

    /// Records an update, or keeps it until the pause ends.
    pub fn record(&mut self, update: Update) {
        let Some(pending) = &mut self.pending else { return self.apply(update) };
        if pending.len() >= HISTORY_LEN_MAX * self.servers.len() {
            pending.pop_front();
        }
        pending.push_back(update);
    }

    fn apply(&mut self, update: Update) {
        if let Some(server) = self.servers.get_mut(update.server) {
            server.record(update.result);
        }
    }

    /// Compares the servers. This takes too long for each drawing if there are hundreds of servers.
    pub fn compare(&mut self) {
        self.differences = pool::differences(&self.servers);
    }

    /// Returns how a server differed from the others at the last comparison.
    pub fn differences(&self, server: &Server) -> &[Difference] {
        self.differences.get(server.position).map_or(&[], Vec::as_slice)
    }

    /// True while the view is paused.
    pub fn is_paused(&self) -> bool {
        self.pending.is_some()
    }

    /// Starts or ends a pause. At the end, the updates of the pause are recorded.
    pub fn toggle_pause(&mut self) {
        match self.pending.take() {
            Some(pending) => pending.into_iter().for_each(|update| self.apply(update)),
            None => self.pending = Some(VecDeque::new()),
        }
    }

    /// Returns the servers that match the filter, in the order of the table.
    pub fn shown_servers(&self) -> Vec<&Server> {
        self.server_list.arrange(&self.servers, &SERVER_COLUMNS)
    }

    /// Returns the selected server, or `None` if no server matches the filter.
    pub fn selected_server(&self) -> Option<&Server> {
        let servers = self.shown_servers();
        servers.get(self.server_list.selected_position(&servers)).copied()
    }

    /// Returns the classes of the selected server that match the filter, in the order of the table.
    pub fn shown_classes(&self) -> Vec<&ClassReading> {
        let reading = self.selected_server().and_then(Server::reading);
        let classes = reading.map_or(&[][..], |reading| &reading.classes);
        self.class_list.arrange(classes, &CLASS_COLUMNS)
    }

    /// Returns the list of the focused table.
    pub fn focused_list(&mut self) -> &mut List {
        match self.focus {
            Focus::Servers => &mut self.server_list,
            Focus::Classes => &mut self.class_list,
        }
    }

    /// Moves the selection of the focused table by a number of rows.
    pub fn move_selection(&mut self, by: i64) {
        let selected = match self.focus {
            Focus::Servers => self.server_list.moved(&self.shown_servers(), by),
            Focus::Classes => self.class_list.moved(&self.shown_classes(), by),
        };
        if let Some(selected) = selected {
            self.focused_list().selected = selected;
        }
    }

    /// Sorts the focused table by its next column, in the column's own order.
    pub fn sort_by_next_column(&mut self) {
        let columns = match self.focus {
            Focus::Servers => SERVER_COLUMNS.len(),
            Focus::Classes => CLASS_COLUMNS.len(),
        };
        let list = self.focused_list();
        list.sort = (list.sort + 1) % columns;
        list.reversed = false;
    }
}

impl List {
    /// Returns the rows that match the filter, in the order of the sort column. Rows with equal values keep their order.
    fn arrange<'a, R: Row>(&self, rows: &'a [R], columns: &[Column<R>]) -> Vec<&'a R> {
        let filter = self.filter.to_lowercase();
        let matches = |row: &&R| {
            row.searched().iter().any(|text| text.to_lowercase().contains(filter.as_str()))
        };
        let mut rows: Vec<&R> = rows.iter().filter(matches).collect();
        let column = &columns[self.sort];
        let descending = self.is_descending(column);
        rows.sort_by(|a, b| (column.value)(a).compare(&(column.value)(b), descending));
        rows
    }

    /// True if the rows are sorted from the largest value to the smallest one.
    pub fn is_descending<R>(&self, column: &Column<R>) -> bool {
        column.descending != self.reversed
    }

    /// Returns the position of the selected row. It is 0 if the selected row is not among the rows.
    pub fn selected_position<R: Row>(&self, rows: &[&R]) -> usize {
        rows.iter().position(|row| row.id() == self.selected).unwrap_or(0)
    }

    /// Returns the id of the row that is `by` rows after the selected row. Stops at the first and at the last row.
    fn moved<R: Row>(&self, rows: &[&R], by: i64) -> Option<u64> {
        let last = rows.len().checked_sub(1)? as i64;
        let position = self.selected_position(rows) as i64;
        Some(rows[position.saturating_add(by).clamp(0, last) as usize].id())
    }
}

#[cfg(test)]
mod tests {
    use super::{Focus, State};
    use crate::poll::Update;
    use crate::sample::{Class, Sample, Totals};
    use std::time::Duration;

    /// Returns a state with three servers: `b:1` with the classes 1 to 3, `a:2` without classes, and `c:3`, which is
    /// down.
    fn state() -> State {
        let addresses = ["b:1", "a:2", "c:3"].map(str::to_owned);
        let mut state = State::new(addresses, Duration::from_secs(1));
        let class = |number, chunk_size_bytes, items| Class {
            number,
            chunk_size_bytes,
            pages: 1,
            items,
            ..Class::default()
        };
        let mut busy = sample(5);
        busy.classes = vec![class(2, 48, 9), class(1, 96, 7), class(3, 1184, 8)];
        state.record(Update { server: 0, result: Ok(busy) });
        state.record(Update { server: 1, result: Ok(sample(8)) });
        state.record(Update { server: 2, result: Err("refused".to_owned()) });
        state
    }

    fn sample(items: u64) -> Sample {
        let totals = Totals { items, version: "1.6.45".to_owned(), ..Totals::default() };
        Sample { totals, ..Sample::default() }
    }

    fn addresses(state: &State) -> Vec<&str> {
        state.shown_servers().iter().map(|server| server.address.as_str()).collect()
    }

    fn class_numbers(state: &State) -> Vec<u64> {
        state.shown_classes().iter().map(|row| row.class.number).collect()
    }

    #[test]
    fn servers_are_sorted_by_the_chosen_column() {
        let mut state = state();
        assert_eq!(addresses(&state), ["b:1", "a:2", "c:3"], "the order of the arguments");
        for _ in 0..6 {
            state.sort_by_next_column();
        }
        assert_eq!(addresses(&state), ["a:2", "b:1", "c:3"], "by the number of items");
        state.server_list.reversed = true;
        assert_eq!(addresses(&state), ["b:1", "a:2", "c:3"], "an unknown value stays last");
        for _ in 0..3 {
            state.sort_by_next_column();
        }
        assert_eq!((state.server_list.sort, state.server_list.reversed), (0, false));
    }

    #[test]
    fn the_selected_server_stays_selected_when_the_order_changes() {
        let mut state = state();
        state.move_selection(1);
        assert_eq!(state.selected_server().map(|server| server.address.as_str()), Some("a:2"));
        state.server_list.reversed = true;
        assert_eq!(state.selected_server().map(|server| server.address.as_str()), Some("a:2"));
        state.move_selection(100);
        assert_eq!(state.selected_server().map(|server| server.address.as_str()), Some("b:1"));
    }

    #[test]
    fn the_filter_applies_to_the_focused_table() {
        let mut state = state();
        state.focused_list().filter = "A:".to_owned();
        assert_eq!(addresses(&state), ["a:2"]);
        assert_eq!(class_numbers(&state), [0; 0], "the server a:2 has no classes");
        state.focused_list().filter = "1.6".to_owned();
        assert_eq!(addresses(&state), ["b:1", "a:2"], "the version contains the filter");
        state.focused_list().filter = "none".to_owned();
        assert_eq!(state.selected_server(), None);
        state.move_selection(1);
        state.focused_list().filter.clear();
        state.focus = Focus::Classes;
        state.focused_list().filter = "8".to_owned();
        assert_eq!(class_numbers(&state), [2, 3], "the chunk sizes contain the filter");
    }

    #[test]
    fn classes_are_sorted_by_chunk_size_first() {
        let mut state = state();
        assert_eq!(class_numbers(&state), [2, 1, 3]);
        state.focus = Focus::Classes;
        for _ in 0..2 {
            state.sort_by_next_column();
        }
        assert_eq!(class_numbers(&state), [2, 3, 1], "by the number of items");
    }

    #[test]
    fn a_pause_keeps_updates_until_it_ends() {
        let mut state = state();
        state.toggle_pause();
        state.record(Update { server: 2, result: Ok(sample(1)) });
        assert!(state.is_paused());
        assert_eq!(state.servers[2].reading(), None);
        state.toggle_pause();
        assert!(!state.is_paused() && state.servers[2].reading().is_some());
    }

    #[test]
    fn the_updates_of_a_pause_are_limited() {
        let mut state = state();
        state.toggle_pause();
        for items in 0..5000 {
            state.record(Update { server: 0, result: Ok(sample(items)) });
        }
        assert_eq!(state.pending.as_ref().map(|pending| pending.len()), Some(1800));
        state.toggle_pause();
        let items = state.servers[0].reading().map(|reading| reading.sample.totals.items);
        assert_eq!(items, Some(4999));
    }
}
