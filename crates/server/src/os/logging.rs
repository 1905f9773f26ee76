//! What the server says on stderr: warnings always; -v, -vv and -vvv add a level each.

use std::sync::OnceLock;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// The one filter of the process: a subscriber is global, too.
static FILTER: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Begins to print. Does nothing where a subscriber is there already, as in tests.
pub fn init_logging(verbosity: u8) {
    let (filter, handle) = reload::Layer::new(level(verbosity));
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false).without_time();
    // The text alone, as memcached prints it.
    let lines = lines.with_target(false).with_level(false);
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        // Only the first initialisation gets here.
        let _ = FILTER.set(handle);
    }
}

pub fn set_verbosity(verbosity: u8) {
    if let Some(filter) = FILTER.get() {
        // It fails only once the subscriber is gone, and then nothing is printed anyway.
        let _ = filter.reload(level(verbosity));
    }
}

fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}
