//! Warm restart (`-e`): opens the engine with a memory file, closes it and logs the result.
//!
//! After SIGUSR1 or `shutdown graceful` the server closes the engine when all workers have ended. Otherwise the memory
//! file has no `.meta` file, and the next start is cold.

use crate::config::Settings;
use slabwise_base::Clock;
use slabwise_base::clock::unix_time;
use slabwise_engine::{Engine, Progress, RestartError, Start, Stop};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// The interval of progress messages while the index is rebuilt.
const PROGRESS_PERIOD_NANOS: u64 = 1_000_000_000;

/// Opens the engine and its clock.
pub fn open_engine(settings: &Settings) -> Result<(Engine, Clock), Box<dyn Error>> {
    match &settings.memory_file {
        None => Ok((Engine::new(settings.engine.clone())?, Clock::real())),
        Some(path) => Ok(open(settings, path)?),
    }
}

fn open(settings: &Settings, path: &Path) -> Result<(Engine, Clock), RestartError> {
    let (mut clock, date) = (Clock::real(), unix_time());
    let mut reported_at = 0;
    let mut report = |progress: Progress| {
        if clock.nanos() - reported_at >= PROGRESS_PERIOD_NANOS {
            reported_at = clock.nanos();
            tracing::warn!("restart: {} of {} pages", progress.pages_done, progress.pages);
        }
    };
    let (engine, start) = Engine::open(settings.engine.clone(), path, date, &mut report)?;
    let path = path.display();
    match start {
        Start::Cold(reason) => tracing::warn!("-e {path}: starting with an empty cache: {reason}"),
        Start::Warm(warm) => {
            let millis = clock.nanos() / 1_000_000;
            tracing::warn!("-e {path}: restored {} items in {millis} ms", warm.items);
            clock.resume(warm.elapsed);
        }
    }
    Ok((engine, clock))
}

/// Saves the state for the next start. No other thread may use the engine.
pub fn close_engine(engine: Engine, clock: &Clock) -> Result<(), RestartError> {
    let stop = Stop { unix_time: unix_time(), elapsed: Duration::from_nanos(clock.nanos()) };
    engine.close(stop)
}
