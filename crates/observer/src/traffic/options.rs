//! The options of observing traffic, and its errors.

use crate::error::ObserverError;
use slabwise_client::ClientError;
use std::time::Duration;

/// The options of [`Traffic::start`](super::Traffic::start).
#[derive(Clone, Debug)]
pub struct Options {
    /// The maximum mean cost of watching, as a share of the server's processor time; above 0.
    pub cost_share_max: f64,
    /// The time whose budget a window may use in advance. The mean cost reaches its maximum only over times that are
    /// long compared with this time.
    pub advance: Duration,
    /// The maximum number of keys that a window holds. If the cache has more keys, the window samples them by hash.
    pub keys_max: usize,
    /// A window ends when it has seen this number of times the keys that each class holds, because its curve is then
    /// measured up to this multiple of its present size.
    pub range_factor: f64,
    /// The maximum number of accesses that are recorded for simulations, of 16 bytes each; 0 records none. If there are
    /// more, the accesses to a sample of the keys are recorded.
    pub recorded_max: usize,
    /// The factor by which the weights of all counts are multiplied when a window starts; from 0 to 1.
    pub ageing_factor: f64,
}

impl Default for Options {
    fn default() -> Options {
        let second = Duration::from_secs(1);
        Options {
            cost_share_max: 0.03,
            advance: 600 * second,
            keys_max: 1 << 20,
            range_factor: 2.2,
            recorded_max: 0,
            ageing_factor: 0.5,
        }
    }
}

/// An error that ended the observation. The caller adds the address of the server.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The connection failed.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The server replied to `watch` with an error.
    #[error(
        "the server refused 'watch': {}; start it without -W, and close other watchers (at most 20)",
        .0.escape_ascii()
    )]
    WatchRefused(Vec<u8>),
    /// The server sent a line to the watcher that has no known form.
    #[error("unexpected line '{}' after 'watch'; expected lines that start with ts=", .0.escape_ascii())]
    UnexpectedLine(Vec<u8>),
    /// The lines lack the sizes of the values.
    #[error(
        "this memcached does not write the sizes of values to watchers: 1.6.11 or later is needed"
    )]
    WithoutSizes,
    /// The counters cannot be read.
    #[error(transparent)]
    Counters(#[from] ObserverError),
    /// The reply to `stats` lacks a row or its value has another form.
    #[error(
        "the reply to '{command}' has no valid row '{row}'; give the address of a memcached 1.6"
    )]
    MissingRow {
        /// The command.
        command: &'static str,
        /// The name of the row.
        row: &'static str,
    },
    /// The system refused to start the thread.
    #[error("cannot start the thread of the observer: {0}")]
    Thread(std::io::Error),
}
