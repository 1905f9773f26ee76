//! The history of one key: the versions that a reply may still contain.
//!
//! A version is *possible* in a request if its store began before the request ended, and nothing shows that another
//! state had replaced it before the request began. Replies are evidence. Evidence says that at some moment between the
//! two stamps of a request the key had a certain version, no item, or at least not a certain version:
//!
//! ```text
//!    store of version 1   |----|                      end of version 1: it had taken effect
//!    evidence: version 2          |------|            begins after this end, so version 1 is dead at the end of the
//!    a get                                 |----|     evidence; the get may not return version 1
//! ```
//!
//! Invariants:
//! - A version in the list has `begin <= end`. Its end is the earliest stamp at which it is known to have taken effect,
//!   if it has an effect at all.
//! - `dead` is the earliest stamp at which the version is known to be replaced; every version is stored at most once.
//! - Each version that was removed from the list, and was not refused, was dead at `floor` or before.
//! - `threats` of a version is the evidence against it that began before its end, so that it has no effect unless the
//!   end becomes lower.

use super::parts::{Part, Side};
use super::steps::Steps;
use super::version::Version;
use crate::stamps::Stamp;

/// The time at which a request began.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    /// The order of the begin.
    pub stamp: Stamp,
    /// The lowest time that the server's clock may have had, in nanoseconds.
    pub clock_min_nanos: u64,
}

/// The time at which a request had ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The order of the end.
    pub stamp: Stamp,
    /// The highest time that the server's clock may have had, in nanoseconds.
    pub clock_max_nanos: u64,
}

/// The two stamps of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The stamp of the begin.
    pub begin: Stamp,
    /// The stamp of the end.
    pub end: Stamp,
}

/// What a reply shows about the state of the key, at some moment in its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The key had this version.
    Is(u32),
    /// The key did not have this version.
    Not(u32),
    /// There was no item.
    Absent,
}

impl Evidence {
    /// True if the evidence excludes the version.
    fn excludes(self, version: u32) -> bool {
        match self {
            Evidence::Is(id) => id != version,
            Evidence::Not(id) => id == version,
            Evidence::Absent => true,
        }
    }
}

/// The effect of a request that is not complete on versions whose stores begin meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new expiry.
    Touch,
    /// A step of a number.
    Step,
    /// A new part of the value.
    Part(Side),
}

/// A request that is not complete and may change versions.
#[derive(Clone, Copy, Debug)]
struct Open {
    id: u32,
    begin: Stamp,
    change: Change,
}

/// A store or touch whose connection ended before the reply.
#[derive(Clone, Copy, Debug)]
struct Lost {
    id: u32,
    begin: Stamp,
    /// The TTL that it gives to an item, in nanoseconds. `u64::MAX` if the item then does not expire.
    ttl_nanos: u64,
}

/// The history of a key.
#[derive(Debug, Default)]
pub struct History {
    versions: Vec<Version>,
    last_id: u32,
    floor: Stamp,
    /// The requests that may change versions and are not complete.
    open: Vec<Open>,
    /// The lost stores and touches that may still take effect.
    lost: Vec<Lost>,
    /// The stamp at which the last process had ended. CAS values of earlier versions may be used again.
    stopped: Stamp,
    /// The number of events of all keys that were applied to this one.
    pub events_applied: usize,
}

impl History {
    /// Returns a number for a new version or touch.
    pub fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// True if the number was given to a version or touch.
    pub fn has_given(&self, id: u32) -> bool {
        (1..=self.last_id).contains(&id)
    }

    /// Returns the stamp before which removed versions were dead.
    pub fn floor(&self) -> Stamp {
        self.floor
    }

    /// Returns the versions that are in the list.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Returns the version with this number, if it is in the list.
    pub fn version_mut(&mut self, id: u32) -> Option<&mut Version> {
        self.versions.iter_mut().find(|version| version.id == id)
    }

    /// Returns the version with this number, if it is in the list.
    pub fn version(&self, id: u32) -> Option<&Version> {
        self.versions.iter().find(|version| version.id == id)
    }

    /// Records that the store of a version begins.
    pub fn begin_store(&mut self, id: u32, len: u32, flags: u32, begin: Stamp) {
        let mut version = Version::new(id, len, flags, begin);
        let steps = self.open.iter().filter(|open| open.change == Change::Step).count();
        version.steps = Steps::new(steps as u64);
        for open in &self.open {
            match open.change {
                Change::Touch => version.begin_expiry(open.id),
                Change::Step => {}
                Change::Part(side) => version.parts.push(Part::new(open.id, side, open.begin)),
            }
        }
        self.versions.push(version);
    }

    /// Records that a request begins that may change versions.
    pub fn begin_change(&mut self, id: u32, change: Change, begin: Stamp) {
        self.open.push(Open { id, begin, change });
        for version in &mut self.versions {
            match change {
                Change::Touch => version.begin_expiry(id),
                Change::Step => version.steps.begin(),
                Change::Part(side) => version.parts.push(Part::new(id, side, begin)),
            }
        }
    }

    /// Records that the store, touch or part with this number has no effect.
    pub fn refuse(&mut self, id: u32) {
        self.versions.retain(|version| version.id != id);
        self.close(id);
        self.versions.iter_mut().for_each(|version| version.refuse(id));
    }

    /// Records that a request is complete, so that it does not change later versions.
    pub fn close(&mut self, id: u32) {
        self.open.retain(|open| open.id != id);
    }

    /// Records that the connection of a store or touch ended before the reply.
    pub fn lose(&mut self, id: u32, begin: Stamp, ttl_nanos: u64) {
        self.lost.push(Lost { id, begin, ttl_nanos });
        if let Some(version) = self.version_mut(id) {
            version.lost = true;
        }
    }

    /// Records that the lost stores and touches that began before a stamp have taken effect by now, or never will.
    fn end_lost(&mut self, before: Stamp, now: End) {
        for lost in self.lost.extract_if(.., |lost| lost.begin < before) {
            let deadline_nanos = now.clock_max_nanos.saturating_add(lost.ttl_nanos);
            for version in &mut self.versions {
                version.set_deadline(lost.id, now.stamp, deadline_nanos);
            }
        }
    }

    /// Records that a store has taken effect, if it has one, and that its item may exist until the deadline.
    pub fn complete_store(&mut self, id: u32, end: Stamp, deadline_nanos: u64) {
        let Some(version) = self.version_mut(id) else { return };
        version.take_effect_by(end);
        version.set_deadline(id, end, deadline_nanos);
    }

    /// Records the end of a touch, of which it is not known whether it has changed a certain version.
    pub fn complete_touch(&mut self, id: u32, end: Stamp, deadline_nanos: u64) {
        self.close(id);
        self.versions.iter_mut().for_each(|it| it.set_deadline(id, end, deadline_nanos));
    }

    /// Records that an append or prepend has added its part.
    pub fn complete_part(&mut self, id: u32, end: Stamp) {
        self.close(id);
        let parts = self.versions.iter_mut().flat_map(|version| &mut version.parts);
        parts.filter(|part| part.id == id).for_each(|part| part.end = end);
    }

    /// Records evidence.
    pub fn record(&mut self, evidence: Evidence, span: Span) {
        for version in &mut self.versions {
            if evidence == Evidence::Is(version.id) {
                version.take_effect_by(span.end);
            } else if evidence.excludes(version.id) {
                version.exclude(span);
            }
        }
    }

    /// Records that each lost request has taken effect by now, or never will. No request may be open.
    pub fn settle(&mut self, now: End) {
        self.end_lost(Stamp::MAX, now);
        for version in self.versions.iter_mut().filter(|version| version.lost) {
            version.take_effect_by(now.stamp);
        }
        self.open.clear();
    }

    /// Records that the server process has ended, so that requests that began before have taken effect or never will.
    pub fn stop(&mut self, now: End) {
        let stamp = now.stamp;
        self.end_lost(stamp, now);
        for version in self.versions.iter_mut().filter(|version| version.begin < stamp) {
            version.take_effect_by(stamp);
        }
        self.open.retain(|open| open.begin >= stamp);
        self.stopped = stamp;
    }

    /// Records the CAS value of a version. Returns the version that has another one, or that has the same one although
    /// it is another version.
    pub fn set_cas(&mut self, id: u32, cas: u64) -> Result<(), &Version> {
        let Some(at) = self.versions.iter().position(|it| it.id == id) else { return Ok(()) };
        let stopped = self.stopped;
        let is_same = |it: &Version| it.id != id && it.cas == Some(cas) && it.begin >= stopped;
        if let Some(same) = self.versions.iter().position(is_same)
            && self.versions[at].begin >= stopped
        {
            return Err(&self.versions[same]);
        }
        match self.versions[at].cas {
            Some(known) if known != cas => Err(&self.versions[at]),
            _ => {
                self.versions[at].cas = Some(cas);
                Ok(())
            }
        }
    }

    /// Forgets versions that no request can return, if no open request began before `oldest`.
    pub fn prune(&mut self, oldest: Stamp) {
        self.versions.iter_mut().for_each(|version| version.prune(oldest));
        if self.versions.len() > 1 || self.versions.iter().any(|it| it.dead < oldest) {
            let floor = &mut self.floor;
            self.versions.retain(|version| {
                let kept = version.dead >= oldest;
                if !kept {
                    *floor = (*floor).max(version.dead);
                }
                kept
            });
        }
    }
}
