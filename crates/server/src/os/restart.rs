//! Warm restart (`-e`): opens the engine with the items of a memory file, and saves the state of the engine at the
//! stop.
//!
//! After SIGUSR1 or `shutdown graceful` the server waits until all workers have ended, and then writes the engine's
//! state to the `.meta` file beside the memory file. After any other stop there is no `.meta` file, so the next start
//! is cold: the cache is empty.

use super::sys;
use crate::config::{Settings, with_page_size_of};
use slabwise_base::Clock;
use slabwise_base::clock::unix_time;
use slabwise_engine::{Engine, Progress, RestartError, Start, Stop, saved_layout};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// The minimum time between two progress messages while the engine rebuilds its index from the memory file.
const PROGRESS_PERIOD_NANOS: u64 = 1_000_000_000;

/// Returns the settings with the page size of the saved cache, if the page size is not given and its default, which depends
/// on `-m`, differs. So a start with another `-m` keeps the items.
pub fn with_saved_page_size(settings: &Settings) -> Option<Settings> {
    let layout = saved_layout(settings.memory_file.as_deref()?)?;
    let adjusted = with_page_size_of(settings, &layout)?;
    let size_bytes = adjusted.engine.page_size_bytes;
    tracing::info!("-e: the pages have {size_bytes} bytes, as those of the saved items");
    Some(adjusted)
}

/// Makes the engine and its clock. With `-e`, both continue from the memory file if a warm restart is possible.
pub fn open_engine(settings: &Settings) -> Result<(Engine, Clock), Box<dyn Error>> {
    match &settings.memory_file {
        None if settings.control_path.is_some() => {
            Ok((Engine::new_nameless(settings.engine.clone())?, Clock::real()))
        }
        None => Ok((Engine::new(settings.engine.clone())?, Clock::real())),
        Some(path) => open(settings, path),
    }
}

fn open(settings: &Settings, path: &Path) -> Result<(Engine, Clock), Box<dyn Error>> {
    let (mut clock, date) = (Clock::real(), unix_time());
    let mut reported_at = 0;
    let mut report = |progress: Progress| match progress {
        Progress::Mapped(addresses) => sys::set_memory_file_addresses(addresses),
        Progress::Checked { pages_done, pages } => {
            if clock.nanos() - reported_at >= PROGRESS_PERIOD_NANOS {
                reported_at = clock.nanos();
                tracing::warn!("-e {}: {pages_done} of {pages} pages are restored", path.display());
            }
        }
    };
    sys::explain_bus_errors(bus_error_message(path))?;
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

/// Returns the message of a server that cannot access its memory file any more.
fn bus_error_message(path: &Path) -> String {
    format!(
        "slabwise: -e {}: a part of the file cannot be read or written, so the server ends by SIGBUS and the items are \
         lost: another process has truncated the file, or its file system is full or defective: let no other process \
         write to the file, check the file system, and start the server again\n",
        path.display()
    )
}

/// Saves the state of the engine for the next start. No other thread may use the engine.
pub fn close_engine(engine: Engine, clock: &Clock) -> Result<(), RestartError> {
    let stop = Stop { unix_time: unix_time(), elapsed: Duration::from_nanos(clock.nanos()) };
    engine.close(stop)
}
