//! A server in the view: its address, its state and its history.

use crate::rates::Reading;
use crate::sample::Sample;
use std::collections::VecDeque;

/// The number of samples that a history keeps. A sparkline shows one sample per column of the terminal.
pub const HISTORY_LEN_MAX: usize = 600;

/// A server and what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The position of the server in the arguments.
    pub position: usize,
    /// The address as text.
    pub address: String,
    /// The result of the last attempt to read the server.
    pub state: ServerState,
    /// The rates of the last samples.
    pub history: History,
}

/// The result of the last attempt to read a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerState {
    /// No attempt is complete.
    Waiting,
    /// The server replied.
    Up(Box<Reading>),
    /// The server could not be read, for this reason.
    Down(String),
}

/// The rates of the last samples, the newest one last. A rate is `None` if it is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Requests per second.
    pub requests_per_second: VecDeque<Option<f64>>,
    /// Hit ratios.
    pub hit_ratios: VecDeque<Option<f64>>,
}

impl Server {
    /// Returns a server of which no sample has arrived.
    pub fn new(position: usize, address: String) -> Server {
        Server { position, address, state: ServerState::Waiting, history: History::default() }
    }

    /// Records the result of an attempt to read the server. After a failed attempt, the next sample has no rates.
    pub fn record(&mut self, result: Result<Sample, String>) {
        let first = matches!(self.state, ServerState::Waiting);
        self.state = match result {
            Ok(sample) => {
                let before = self.reading().map(|reading| &reading.sample);
                ServerState::Up(Box::new(Reading::new(sample, before)))
            }
            Err(reason) => ServerState::Down(reason),
        };
        if first {
            // The first sample never has rates, so a gap for it would only show that the command has started.
            return;
        }
        let rates = self.reading().map(|reading| &reading.rates);
        let (requests, hit_ratio) =
            rates.map_or((None, None), |rates| (rates.requests_per_second, rates.hit_ratio));
        append(&mut self.history.requests_per_second, requests);
        append(&mut self.history.hit_ratios, hit_ratio);
    }

    /// Returns the last reading, or `None` if the last attempt failed.
    pub fn reading(&self) -> Option<&Reading> {
        match &self.state {
            ServerState::Up(reading) => Some(reading),
            ServerState::Waiting | ServerState::Down(_) => None,
        }
    }
}

fn append(history: &mut VecDeque<Option<f64>>, value: Option<f64>) {
    if history.len() == HISTORY_LEN_MAX {
        history.pop_front();
    }
    history.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::{HISTORY_LEN_MAX, Server, ServerState};
    use crate::sample::{Sample, Totals};

    fn sample(seconds: u64, requests: u64) -> Sample {
        let totals =
            Totals { uptime_seconds: seconds, requests, gets: requests, ..Totals::default() };
        Sample { nanos: seconds * 1_000_000_000, totals, ..Sample::default() }
    }

    #[test]
    fn the_history_has_a_gap_while_the_server_is_down() {
        let mut server = Server::new(0, "a:1".to_owned());
        server.record(Ok(sample(1, 0)));
        server.record(Ok(sample(2, 10)));
        server.record(Err("refused".to_owned()));
        assert_eq!(server.state, ServerState::Down("refused".to_owned()));
        assert_eq!(server.reading(), None);
        server.record(Ok(sample(4, 30)));
        server.record(Ok(sample(5, 35)));
        let requests: Vec<_> = server.history.requests_per_second.iter().copied().collect();
        assert_eq!(requests, [Some(10.0), None, None, Some(5.0)]);
    }

    #[test]
    fn the_history_is_limited() {
        let mut server = Server::new(0, "a:1".to_owned());
        for second in 0..HISTORY_LEN_MAX as u64 + 10 {
            server.record(Ok(sample(second, second * second)));
        }
        assert_eq!(server.history.requests_per_second.len(), HISTORY_LEN_MAX);
        assert_eq!(server.history.hit_ratios.len(), HISTORY_LEN_MAX);
        let newest = 2.0 * (HISTORY_LEN_MAX as f64 + 9.0) - 1.0;
        assert_eq!(server.history.requests_per_second.back(), Some(&Some(newest)));
    }
}
