//! A real memcached, asked by the wire.

use super::finding::Finding;
use super::setup::StreamSetup;
use crate::trial::error::ExperimentError;
use crate::wire::{Server, ServerError};
use slabwise_base::{Clock, memcached};
use slabwise_replay::{CostForm, Pace, drive, unwatched};

/// Replays a stream to a memcached of its own, as fast as it answers.
pub fn go(
    stream: &StreamSetup,
    limit_bytes: u64,
    (scale, seed): (f64, u64),
) -> Result<Finding, ExperimentError> {
    let nothing = |why: String| Finding { miss_ratio: Err(why), memory_share: 1.0 };
    let memory_mib = limit_bytes >> 20;
    if memory_mib == 0 {
        return Ok(nothing("its least limit is a mebibyte".to_owned()));
    }
    let mut server = match Server::start(&["memcached".to_owned()], memory_mib) {
        Ok(server) => server,
        Err(error @ ServerError::Start(_)) => {
            return Ok(nothing(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    let pace =
        Pace { connections: 1, batch: 128, rate: None, window: None, cost_form: CostForm::None };
    let workload = stream.open(scale, seed)?;
    let report = drive(&server.address(), workload, &pace, &Clock::real(), unwatched)?;
    let pages: u64 = server.classes()?.iter().map(|class| class.pages).sum();
    Ok(Finding {
        miss_ratio: Ok(report.miss_ratio),
        memory_share: (pages * memcached::PAGE_SIZE_BYTES as u64) as f64 / limit_bytes as f64,
    })
}
