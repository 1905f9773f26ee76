//! One version of a key, and the requests that may have changed it.

use super::history::{Begin, Span};
use super::parts::Part;
use super::steps::Steps;
use crate::stamps::{NEVER, Stamp};

/// An expiry that a store or a touch may have given to a version.
#[derive(Clone, Copy, Debug)]
struct Expiry {
    /// The number of the store or touch.
    id: u32,
    /// The earliest stamp at which it is known to have taken effect.
    end: Stamp,
    dead: Stamp,
    /// The highest time of the server's clock at which the item may still exist, in nanoseconds.
    deadline_nanos: u64,
}

/// A version of the key.
#[derive(Clone, Debug)]
pub struct Version {
    /// The number of the version.
    pub id: u32,
    /// The length of the value in bytes.
    pub len: u32,
    /// The client flags.
    pub flags: u32,
    /// The CAS value, if a reply contained it.
    pub cas: Option<u64>,
    /// The stamp at which the store began.
    pub begin: Stamp,
    /// The earliest stamp at which the store is known to have taken effect, if it has an effect.
    pub end: Stamp,
    /// The earliest stamp at which the version is known to be replaced.
    pub dead: Stamp,
    /// True if the connection of the store ended before the reply.
    pub lost: bool,
    /// The steps of a number.
    pub steps: Steps,
    /// The parts that may have been added.
    pub parts: Vec<Part>,
    expiries: Vec<Expiry>,
    threats: Vec<Span>,
}

/// The number of threats to a version above which old ones are removed.
const THREATS_KEPT: usize = 16;

impl Version {
    /// Returns a version whose store begins.
    pub fn new(id: u32, len: u32, flags: u32, begin: Stamp) -> Version {
        let mut version = Version {
            id,
            len,
            flags,
            cas: None,
            begin,
            end: NEVER,
            dead: NEVER,
            lost: false,
            steps: Steps::default(),
            parts: Vec::new(),
            expiries: Vec::new(),
            threats: Vec::new(),
        };
        version.begin_expiry(id);
        version
    }

    /// True if a request with these times may find the version. The tolerance is the time by which an item may outlive
    /// its deadline.
    pub fn is_possible(&self, begin: Begin, end: Stamp, tolerance_nanos: u64) -> bool {
        self.begin < end && self.dead >= begin.stamp && !self.has_expired(begin, tolerance_nanos)
    }

    /// True if the version had expired when the request began.
    pub fn has_expired(&self, begin: Begin, tolerance_nanos: u64) -> bool {
        self.expiries
            .iter()
            .filter(|expiry| expiry.dead >= begin.stamp)
            .all(|it| it.deadline_nanos.saturating_add(tolerance_nanos) < begin.clock_min_nanos)
    }

    /// Records that the version has taken effect at this stamp, or before.
    pub fn take_effect_by(&mut self, end: Stamp) {
        if end >= self.end {
            return;
        }
        self.end = end;
        for threat in self.threats.extract_if(.., |threat| threat.begin > end) {
            self.dead = self.dead.min(threat.end);
        }
    }

    /// Records evidence that excludes the version.
    pub fn exclude(&mut self, span: Span) {
        if self.end < span.begin {
            self.dead = self.dead.min(span.end);
        } else if self.begin < span.begin && self.dead > span.end {
            self.threats.push(span);
        }
    }

    /// Records that a store or touch may give the version any expiry.
    pub fn begin_expiry(&mut self, id: u32) {
        self.expiries.push(Expiry { id, end: NEVER, dead: NEVER, deadline_nanos: u64::MAX });
    }

    /// Records the deadline of a store or touch that is complete.
    pub fn set_deadline(&mut self, id: u32, end: Stamp, deadline_nanos: u64) {
        for expiry in self.expiries.iter_mut().filter(|expiry| expiry.id == id) {
            expiry.end = end;
            expiry.deadline_nanos = deadline_nanos;
        }
    }

    /// Records that a completed touch has changed this version, so that earlier expiries are not valid any more.
    pub fn replace_expiries(&mut self, touch: u32, span: Span) {
        for expiry in &mut self.expiries {
            if expiry.id != touch && expiry.end < span.begin {
                expiry.dead = expiry.dead.min(span.end);
            }
        }
    }

    /// Records that a touch or a part with this number has no effect.
    pub fn refuse(&mut self, id: u32) {
        self.expiries.retain(|expiry| expiry.id != id);
        self.parts.retain(|part| part.id != id);
    }

    /// Forgets what no request can see, if no open request began before `oldest`.
    pub fn prune(&mut self, oldest: Stamp) {
        if self.threats.len() > THREATS_KEPT {
            self.threats.retain(|threat| threat.begin >= oldest);
        }
        if self.expiries.len() > 1 {
            self.expiries.retain(|expiry| expiry.dead >= oldest);
        }
        self.steps.prune(oldest);
    }
}
