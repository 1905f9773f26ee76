//! Warm restart (`-e`): the engine over a memory file, and what the log says of it.
//!
//! Stopped by SIGUSR1 or `shutdown graceful`, the server closes the engine once every worker is gone. Any
//! other end leaves the file without its .meta, and the next start is cold.

use crate::config::Settings;
use slabwise_base::Clock;
use slabwise_base::clock::unix_time;
use slabwise_engine::{Engine, Progress, RestartError, Start, Stop};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// A rebuild says how far it is this often.
const PROGRESS_PERIOD_NANOS: u64 = 1_000_000_000;

/// The engine of these settings, and the clock that it lives by.
pub fn open_engine(settings: &Settings) -> Result<(Engine, Clock), Box<dyn Error>> {
    match &settings.memory_file {
        None => Ok((Engine::new(settings.engine.clone())?, Clock::real())),
        Some(path) => Ok(open(settings, path)?),
    }
}

fn open(settings: &Settings, path: &Path) -> Result<(Engine, Clock), RestartError> {
    let (mut clock, date) = (Clock::real(), unix_time());
    let mut reported_at = 0;
    let mut tell = |progress: Progress| {
        if clock.nanos() - reported_at >= PROGRESS_PERIOD_NANOS {
            reported_at = clock.nanos();
            tracing::warn!("restart: {} of {} pages", progress.pages_done, progress.pages);
        }
    };
    let (engine, start) = Engine::open(settings.engine.clone(), path, date, &mut tell)?;
    let path = path.display();
    match start {
        Start::Cold(reason) => tracing::warn!("-e {path}: starting with an empty cache: {reason}"),
        Start::Warm(warm) => {
            let millis = clock.nanos() / 1_000_000;
            tracing::warn!("-e {path}: {} items are back after {millis} ms", warm.items);
            clock.resume(warm.elapsed);
        }
    }
    Ok((engine, clock))
}

/// Saves what the next start needs. No other thread uses the engine any more.
pub fn close_engine(engine: Engine, clock: &Clock) -> Result<(), RestartError> {
    let stop = Stop { unix_time: unix_time(), elapsed: Duration::from_nanos(clock.nanos()) };
    engine.close(stop)
}
