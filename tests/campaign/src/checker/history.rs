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

use crate::stamps::{NEVER, Stamp};

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
    expiries: Vec<Expiry>,
    threats: Vec<Span>,
}

/// The number of threats to a version above which old ones are removed.
const THREATS_KEPT: usize = 16;

/// The history of a key.
#[derive(Debug, Default)]
pub struct History {
    versions: Vec<Version>,
    last_id: u32,
    floor: Stamp,
    /// The numbers of the touches that are not complete, and the stamps at which they began.
    open_touches: Vec<(u32, Stamp)>,
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
    pub fn version(&self, id: u32) -> Option<&Version> {
        self.versions.iter().find(|version| version.id == id)
    }

    /// Records that the store of a version begins.
    pub fn begin_store(&mut self, id: u32, len: u32, flags: u32, begin: Stamp) {
        let open = |&(id, _): &(u32, Stamp)| Expiry {
            id,
            end: NEVER,
            dead: NEVER,
            deadline_nanos: u64::MAX,
        };
        let own = Expiry { id, end: NEVER, dead: NEVER, deadline_nanos: u64::MAX };
        self.versions.push(Version {
            id,
            len,
            flags,
            cas: None,
            begin,
            end: NEVER,
            dead: NEVER,
            lost: false,
            expiries: self.open_touches.iter().map(open).chain([own]).collect(),
            threats: Vec::new(),
        });
    }

    /// Records that a touch begins.
    pub fn begin_touch(&mut self, id: u32, begin: Stamp) {
        self.open_touches.push((id, begin));
        for version in &mut self.versions {
            let expiry = Expiry { id, end: NEVER, dead: NEVER, deadline_nanos: u64::MAX };
            version.expiries.push(expiry);
        }
    }

    /// Records that a store has no effect.
    pub fn refuse_store(&mut self, id: u32) {
        self.versions.retain(|version| version.id != id);
    }

    /// Records that the connection of a store ended before the reply.
    pub fn lose_store(&mut self, id: u32) {
        if let Some(version) = self.versions.iter_mut().find(|version| version.id == id) {
            version.lost = true;
        }
    }

    /// Records that a store has taken effect, if it has one, and that its item may exist until the deadline.
    pub fn complete_store(&mut self, id: u32, end: Stamp, deadline_nanos: u64) {
        let Some(version) = self.versions.iter_mut().find(|version| version.id == id) else {
            return;
        };
        version.take_effect_by(end);
        version.set_deadline(id, end, deadline_nanos);
    }

    /// Records the end of a touch, of which it is not known whether it has changed a certain version.
    pub fn complete_touch(&mut self, id: u32, end: Stamp, deadline_nanos: u64) {
        self.open_touches.retain(|&(open, _)| open != id);
        self.versions.iter_mut().for_each(|it| it.set_deadline(id, end, deadline_nanos));
    }

    /// Records that a touch had no effect.
    pub fn refuse_touch(&mut self, id: u32) {
        self.open_touches.retain(|&(open, _)| open != id);
        self.versions.iter_mut().for_each(|it| it.expiries.retain(|expiry| expiry.id != id));
    }

    /// Records that a completed touch has changed this version, so that earlier expiries are not valid any more.
    pub fn touch_changed(&mut self, version: u32, touch: u32, span: Span) {
        let Some(version) = self.versions.iter_mut().find(|it| it.id == version) else { return };
        for expiry in &mut version.expiries {
            if expiry.id != touch && expiry.end < span.begin {
                expiry.dead = expiry.dead.min(span.end);
            }
        }
    }

    /// Records evidence.
    pub fn record(&mut self, evidence: Evidence, span: Span) {
        for version in &mut self.versions {
            if evidence == Evidence::Is(version.id) {
                version.take_effect_by(span.end);
            } else if evidence.excludes(version.id) && version.begin < span.begin {
                version.exclude(span);
            }
        }
    }

    /// Records that each lost store and touch has taken effect at this stamp, or never will. No request may be open.
    pub fn settle(&mut self, end: Stamp) {
        for version in self.versions.iter_mut().filter(|version| version.lost) {
            version.take_effect_by(end);
        }
        self.open_touches.clear();
    }

    /// Records that the server process had ended at this stamp, so that requests that began before have taken effect or
    /// never will.
    pub fn stop(&mut self, stamp: Stamp) {
        for version in self.versions.iter_mut().filter(|version| version.begin < stamp) {
            version.take_effect_by(stamp);
        }
        self.open_touches.retain(|&(_, begin)| begin >= stamp);
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
        for version in &mut self.versions {
            if version.threats.len() > THREATS_KEPT {
                version.threats.retain(|threat| threat.begin >= oldest);
            }
            if version.expiries.len() > 1 {
                version.expiries.retain(|expiry| expiry.dead >= oldest);
            }
        }
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

impl Version {
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
    fn take_effect_by(&mut self, end: Stamp) {
        if end >= self.end {
            return;
        }
        self.end = end;
        for threat in self.threats.extract_if(.., |threat| threat.begin > end) {
            self.dead = self.dead.min(threat.end);
        }
    }

    /// Records evidence that excludes the version.
    fn exclude(&mut self, span: Span) {
        if self.end < span.begin {
            self.dead = self.dead.min(span.end);
        } else if self.dead > span.end {
            self.threats.push(span);
        }
    }

    fn set_deadline(&mut self, id: u32, end: Stamp, deadline_nanos: u64) {
        for expiry in self.expiries.iter_mut().filter(|expiry| expiry.id == id) {
            expiry.end = end;
            expiry.deadline_nanos = deadline_nanos;
        }
    }
}
