//! Which missing replies a fault explains. A client that behaves well must receive all others.
//!
//! | the error | is excused if |
//! |---|---|
//! | timeout: nothing was sent or received for a long time | the process was ended during this very exchange |
//! | the connection ended | the process was ended since the client has connected |
//! | the connection ended | the server had sent nothing on it, and was at a limit since the client has connected |
//! | the connection ended within a reply | the exchange had lasted so long that the server may have taken the client for one that does not read; memcached does not end such connections |
//!
//! A stopped process or clock explains no timeout, because every stop is much shorter.

use crate::channel::ChannelError;
use crate::world::{Epoch, World};

/// The time for which slabwise waits for a client that does not read, in nanoseconds (`docs/memory.md`).
const SLOW_READER_NANOS_MIN: u64 = 2_000_000_000;

/// What a client knows about its connection.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The disruptions until the client connected, or until the begin of the last complete exchange.
    epoch: Epoch,
    /// True if the server has sent a reply.
    has_served: bool,
}

impl Link {
    /// Returns the state of a connection that is opened after this call.
    pub fn new(world: &World) -> Link {
        Link { epoch: world.epoch(), has_served: false }
    }

    /// Returns the number of refusals from which on the server may refuse the connection. `None` if it has accepted it.
    pub fn refusals_epoch(&self) -> Option<u64> {
        (!self.has_served).then_some(self.epoch.refusals)
    }

    /// True if a disruption explains that the connection cannot be opened.
    pub fn may_fail_to_open(&self, world: &World) -> bool {
        world.was_disrupted_since(self.epoch)
    }
}

/// The begin of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    epoch: Epoch,
    nanos: u64,
    clock_jumps: u64,
}

/// A reason why replies may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// The process was ended, or refused the connection.
    Disruption,
    /// The server may have taken the client for one that does not read.
    SlowReader,
}

impl Start {
    /// Returns the begin of an exchange that begins after this call.
    pub fn now(world: &World) -> Start {
        Start {
            epoch: world.epoch(),
            nanos: world.clock.nanos(),
            clock_jumps: world.clock_jump_epoch(),
        }
    }

    /// Records that the exchange was complete: no earlier disruption has ended the connection.
    pub fn complete(&self, link: &mut Link) {
        *link = Link { epoch: self.epoch, has_served: true };
    }

    /// Returns the reason why the exchange may have failed. `has_part` is true if the server had sent a part of a reply.
    pub fn excuse(
        &self,
        world: &World,
        link: &Link,
        error: &ChannelError,
        has_part: bool,
    ) -> Option<Excuse> {
        let is_disrupted = match error {
            ChannelError::Timeout => world.restarts.were_active_since(self.epoch.restarts),
            ChannelError::Closed(_) => {
                world.restarts.were_active_since(link.epoch.restarts)
                    || !link.has_served && world.refusals.were_active_since(link.epoch.refusals)
            }
        };
        if is_disrupted {
            return Some(Excuse::Disruption);
        }
        // A jump of its clock also makes the server believe that the client did not read.
        let has_lasted = world.clock.nanos().saturating_sub(self.nanos) >= SLOW_READER_NANOS_MIN
            || world.clock_jump_epoch() != self.clock_jumps;
        let is_slow_reader = matches!(error, ChannelError::Closed(_))
            && !world.is_memcached
            && has_part
            && has_lasted;
        is_slow_reader.then_some(Excuse::SlowReader)
    }
}
