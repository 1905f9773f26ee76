//! `slabwise top --once`: reads two samples of each server, and prints them.

use crate::args::Args;
use crate::columns::{CLASS_COLUMNS, Column, SERVER_COLUMNS};
use crate::json;
use crate::poll::read_twice;
use crate::pool;
use crate::rates::ClassReading;
use crate::server::{Server, ServerState};
use slabwise_client::Connector;
use slabwise_text::table;

/// What the command prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    /// The text for stdout.
    pub text: String,
    /// True if every server could be read.
    pub all_read: bool,
}

/// Reads two samples of each server, and returns what the command prints.
pub fn run(args: &Args, servers: &[Connector]) -> Result<Output, String> {
    let results = read_twice(servers, args.interval);
    let servers = servers.iter().zip(results).enumerate();
    let servers: Vec<Server> = servers
        .map(|(position, (connector, result))| {
            let mut server = Server::new(position, connector.address.to_string());
            match result {
                Ok(samples) => samples.into_iter().for_each(|sample| server.record(Ok(sample))),
                Err(reason) => server.record(Err(reason)),
            }
            server
        })
        .collect();
    let text = match args.json {
        true => json::document(&servers, args.interval)
            .map_err(|error| format!("cannot write the samples as JSON: {error}"))?,
        false => tables(&servers),
    };
    let all_read = servers.iter().all(|server| server.reading().is_some());
    Ok(Output { text: text.trim_end().to_owned() + "\n", all_read })
}

/// Returns a table of the servers and their sums, then a table of the classes of each server that has classes, how it
/// differs from the other servers, and the reasons why servers could not be read.
fn tables(servers: &[Server]) -> String {
    let total = pool::total(servers);
    let rows: Vec<&Server> = servers.iter().chain(&total).collect();
    let mut text = text_table(&SERVER_COLUMNS, &rows);
    for (server, differences) in servers.iter().zip(pool::differences(servers)) {
        match &server.state {
            ServerState::Up(reading) if !reading.classes.is_empty() => {
                let rows: Vec<&ClassReading> = reading.classes.iter().collect();
                let classes = text_table(&CLASS_COLUMNS, &rows);
                text += &format!("\n{}:\n{classes}", server.address);
            }
            ServerState::Down(reason) => {
                text += &format!("\n{} cannot be read: {reason}\n", server.address);
            }
            ServerState::Up(_) | ServerState::Waiting => {}
        }
        for difference in differences {
            text += &format!("{} differs: {difference}\n", server.address);
        }
    }
    text
}

/// Formats rows as a table with the titles of the columns.
fn text_table<R>(columns: &[Column<R>], rows: &[&R]) -> String {
    let titles = columns.iter().map(|column| column.title.to_owned()).collect();
    let cells = rows.iter().map(|row| {
        columns.iter().map(|column| (column.value)(row).text()).collect::<Vec<String>>()
    });
    let alignments: Vec<_> = columns
        .iter()
        .map(|column| match column.left {
            true => slabwise_text::Column::left(0),
            false => slabwise_text::Column::right(0),
        })
        .collect();
    table(&alignments, std::iter::once(titles).chain(cells))
}

#[cfg(test)]
mod tests {
    use super::tables;
    use crate::examples;

    #[test]
    fn the_tables_have_a_line_for_each_server_and_class() {
        let text = tables(&examples::servers());
        let lines: Vec<&str> = text.lines().collect();
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        let expected = "127.0.0.1:21555 45.6k 75.0% 60.0M/64.0M 1234 12 123k 5.0 1.6.45";
        assert_eq!(words.join(" "), expected, "{text}");
        assert!(text.contains("\n127.0.0.1:21555:\nclass  chunk B"), "{text}");
        assert!(text.contains("   *2 "), "class 2 is retired: {text}");
        let reason = "127.0.0.1:1 cannot be read: cannot connect: Connection refused";
        assert!(lines.last().is_some_and(|line| line.starts_with(reason)), "{text}");
    }
}
