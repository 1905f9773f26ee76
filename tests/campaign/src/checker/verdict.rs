//! Judges the outcome of one request by the history of its key, and adds the outcome to the history.

use super::NANOS_PER_SECOND;
use super::history::{Begin, End, Evidence, History, Span};
use super::journal::Journal;
use super::parts;
use super::version::Version;
use crate::kinds::Kind;
use crate::operation::{Operation, Outcome, Verb};
use crate::value::{Content, Values};
use std::fmt::Write;

/// A judgement that found no violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The outcome is possible.
    Possible,
    /// The outcome contains this version, which is possible.
    Version(u32),
    /// The versions that the outcome could contain were forgotten, because the request took very long.
    TooLate,
}

/// A reply that no correct server sends.
#[derive(Debug)]
pub struct Violation {
    /// The number of the key.
    pub key: u32,
    /// The problem, the request, and the last requests for the key.
    pub text: String,
}

impl Violation {
    pub(super) fn new(
        problem: String,
        operation: &Operation,
        outcome: &Outcome<'_>,
        begin: Begin,
        end: End,
        history: &History,
        journal: &Journal,
    ) -> Violation {
        let mut text = problem;
        let outcome = match outcome {
            Outcome::Hit { flags, cas, value } => {
                let start = &value[..value.len().min(64)];
                format!(
                    "value of {} bytes, client flags {flags:?}, CAS value {cas:?}, bytes {}",
                    value.len(),
                    start.escape_ascii()
                )
            }
            other => format!("{other:?}"),
        };
        let _ = write!(
            text,
            "\nrequest: {operation:?}\nfrom stamp {} to {}\noutcome: {outcome}\npossible versions:\n",
            begin.stamp, end.stamp
        );
        for version in history.versions() {
            let _ = writeln!(text, "  {version:?}");
        }
        let _ = write!(
            text,
            "forgotten versions were replaced by stamp {}\nlast requests for the key:\n{journal}",
            history.floor()
        );
        Violation { key: operation.key, text }
    }
}

/// A request, and what is needed to judge its outcome.
pub(super) struct Judge<'a> {
    pub values: Values,
    pub tolerance_nanos: u64,
    pub operation: &'a Operation,
    pub begin: Begin,
    pub end: End,
}

type Judgement = Result<Verdict, String>;

impl Judge<'_> {
    fn span(&self) -> Span {
        Span { begin: self.begin.stamp, end: self.end.stamp }
    }

    /// Returns the TTL that the request gives to an item, in nanoseconds. `u64::MAX` if the item then does not expire.
    fn ttl_nanos(&self) -> u64 {
        match self.operation.ttl_seconds {
            0 => u64::MAX,
            ttl => u64::from(ttl) * NANOS_PER_SECOND,
        }
    }

    /// Returns the time of the server's clock until which an item with the request's TTL may exist.
    fn deadline_nanos(&self) -> u64 {
        self.end.clock_max_nanos.saturating_add(self.ttl_nanos())
    }

    /// Judges the outcome, and adds it to the history.
    pub fn judge(&self, history: &mut History, outcome: Outcome<'_>) -> Judgement {
        let verdict = self.judge_by_history(history, outcome);
        let Operation { verb, version, .. } = *self.operation;
        if verb.touches() {
            self.complete_touch(history, &outcome, verdict.as_ref().ok());
        } else if !matches!(outcome, Outcome::Lost) {
            history.close(version);
        }
        verdict
    }

    fn judge_by_history(&self, history: &mut History, outcome: Outcome<'_>) -> Judgement {
        let Operation { verb, version, .. } = *self.operation;
        match outcome {
            Outcome::Hit { flags, cas, value } if verb.reads() => {
                let verdict = self.judge_value(history, flags, value)?;
                if let (Verdict::Version(id), Some(cas)) = (verdict, cas) {
                    self.judge_cas(history, id, cas)?;
                }
                Ok(verdict)
            }
            Outcome::Stored(cas) if verb.stores() => self.judge_stored(history, cas),
            Outcome::Stored(_) if verb.adds_part() => {
                history.complete_part(version, self.end.stamp);
                self.require_item(history, 0)
            }
            Outcome::Number(number) if verb.steps() => self.judge_step(history, number),
            Outcome::Miss if verb.finds() => self.absent(history),
            Outcome::NotStored if verb == Verb::Replace => self.absent(history),
            // The server has the same reply if there is no memory for the longer value. memcached has it also if two
            // requests create an item at the same time.
            Outcome::NotStored if verb.adds_part() || verb == Verb::StepOrCreate => {
                history.refuse(version);
                Ok(Verdict::Possible)
            }
            Outcome::NotStored if verb == Verb::Add => {
                history.refuse(version);
                self.require_item(history, version)
            }
            Outcome::Exists if verb == Verb::Cas => self.judge_exists(history),
            Outcome::Deleted if verb == Verb::Delete => {
                let verdict = self.require_item(history, 0)?;
                history.record(Evidence::Absent, self.span());
                Ok(verdict)
            }
            Outcome::Touched if verb == Verb::Touch => self.require_item(history, 0),
            Outcome::Refused(_) => {
                history.refuse(version);
                Ok(Verdict::Possible)
            }
            Outcome::Silent => {
                if verb == Verb::Delete {
                    history.record(Evidence::Absent, self.span());
                } else if verb.may_create() {
                    history.complete_store(version, self.end.stamp, self.deadline_nanos());
                }
                Ok(Verdict::Possible)
            }
            Outcome::Lost => {
                if verb.may_create() || verb.touches() {
                    history.lose(version, self.begin.stamp, self.ttl_nanos());
                }
                Ok(Verdict::Possible)
            }
            other => Err(format!("the outcome {other:?} does not fit a {}", verb.name())),
        }
    }

    /// Judges the number after a step.
    fn judge_step(&self, history: &mut History, number: u64) -> Judgement {
        let Operation { key, verb, version: own, .. } = *self.operation;
        let Some((id, steps)) = Kind::of(key).read_number(number) else {
            return Err(format!("the number {number} is not one of key {key}"));
        };
        if verb == Verb::StepOrCreate && id == own && steps == 0 {
            history.complete_store(own, self.end.stamp, u64::MAX);
            history.record(Evidence::Is(own), self.span());
            return Ok(Verdict::Version(own));
        }
        if verb == Verb::StepOrCreate {
            history.refuse(own);
        }
        let verdict = self.judge_version(history, id, None)?;
        self.judge_steps(history, id, steps, true)?;
        Ok(verdict)
    }

    fn judge_steps(
        &self,
        history: &mut History,
        id: u32,
        steps: u64,
        is_increment: bool,
    ) -> Result<(), String> {
        let Span { begin, end } = self.span();
        match history.version_mut(id) {
            Some(version) => version
                .steps
                .see(steps, is_increment, begin, end)
                .map_err(|problem| format!("version {id} has {problem}")),
            None => Ok(()),
        }
    }

    /// Judges an outcome that shows that there was no item.
    fn absent(&self, history: &mut History) -> Judgement {
        history.refuse(self.operation.version);
        history.record(Evidence::Absent, self.span());
        Ok(Verdict::Possible)
    }

    /// Judges an outcome that requires that there was an item other than the version `except`.
    fn require_item(&self, history: &History, except: u32) -> Judgement {
        let possible = |it: &&Version| {
            it.id != except && it.is_possible(self.begin, self.end.stamp, self.tolerance_nanos)
        };
        let mut found = history.versions().iter().filter(possible);
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(Verdict::Version(only.id)),
            (Some(_), Some(_)) => Ok(Verdict::Possible),
            (None, _) if history.floor() >= self.begin.stamp => Ok(Verdict::TooLate),
            (None, _) => Err("the outcome requires an item, but no version is possible".to_owned()),
        }
    }

    /// Judges a value. Returns its version.
    fn judge_value(&self, history: &mut History, flags: Option<u32>, value: &[u8]) -> Judgement {
        let key = self.operation.key;
        match self.values.read(key, value) {
            Content::Version(id) => self.judge_version(history, id, flags),
            Content::Number { version, steps } => {
                let verdict = self.judge_version(history, version, flags)?;
                self.judge_steps(history, version, steps, false)?;
                Ok(verdict)
            }
            Content::Parts { version, prepended, appended } => {
                let verdict = self.judge_version(history, version, flags)?;
                let Span { begin, end } = self.span();
                if let Some(it) = history.version(version) {
                    parts::judge(&it.parts, it.end, (&prepended, &appended), (begin, end))
                        .map_err(|problem| format!("version {version}: {problem}"))?;
                }
                Ok(verdict)
            }
            Content::Short => self.judge_short_value(history, flags, value),
            content => Err(format!("the value is not one of key {key}: {content:?}")),
        }
    }

    /// Judges whether a reply may contain a version.
    fn judge_version(&self, history: &mut History, id: u32, flags: Option<u32>) -> Judgement {
        let Some(version) = history.version(id) else {
            return match history.has_given(id) {
                false => Err(format!("no request has stored version {id}")),
                true if history.floor() >= self.begin.stamp => Ok(Verdict::TooLate),
                true => {
                    Err(format!("version {id} was replaced long ago, or its store was refused"))
                }
            };
        };
        if version.dead < self.begin.stamp {
            return Err(format!(
                "version {id} had been replaced at stamp {}, before the request began",
                version.dead
            ));
        }
        if version.has_expired(self.begin, self.tolerance_nanos) {
            return Err(format!("version {id} had expired"));
        }
        if version.begin >= self.end.stamp {
            return Err(format!("version {id} was not stored yet"));
        }
        if flags.is_some_and(|flags| flags != version.flags) {
            return Err(format!("version {id} has the client flags {}", version.flags));
        }
        history.record(Evidence::Is(id), self.span());
        Ok(Verdict::Version(id))
    }

    /// Judges a value that is too short to name its version.
    fn judge_short_value(
        &self,
        history: &mut History,
        flags: Option<u32>,
        value: &[u8],
    ) -> Judgement {
        let key = self.operation.key;
        let matching = history.versions().iter().filter(|version| {
            version.len as usize == value.len()
                && flags.is_none_or(|flags| flags == version.flags)
                && version.is_possible(self.begin, self.end.stamp, self.tolerance_nanos)
                && self.values.is(key, version.id, value)
        });
        let ids: Vec<u32> = matching.map(|version| version.id).collect();
        match ids[..] {
            [] if history.floor() >= self.begin.stamp => Ok(Verdict::TooLate),
            [] => {
                Err("no possible version has this short value with these client flags".to_owned())
            }
            [id] => {
                history.record(Evidence::Is(id), self.span());
                Ok(Verdict::Version(id))
            }
            _ => Ok(Verdict::Possible),
        }
    }

    /// Judges the CAS value of a version. Steps and parts change the CAS value, so only whole values are judged.
    fn judge_cas(&self, history: &mut History, id: u32, cas: u64) -> Result<(), String> {
        if Kind::of(self.operation.key) != Kind::Whole {
            return Ok(());
        }
        history.set_cas(id, cas).map_err(|other| match other.id == id {
            true => format!("version {id} has the CAS value {:?}, not {cas}", other.cas),
            false => format!("versions {id} and {} have the same CAS value {cas}", other.id),
        })
    }

    fn judge_stored(&self, history: &mut History, cas: Option<u64>) -> Judgement {
        let Operation { verb, version, .. } = *self.operation;
        match verb {
            Verb::Replace => drop(self.require_item(history, version)?),
            Verb::Cas => self.judge_cas_success(history)?,
            _ => {}
        }
        history.complete_store(version, self.end.stamp, self.deadline_nanos());
        history.record(Evidence::Is(version), self.span());
        if let Some(cas) = cas {
            self.judge_cas(history, version, cas)?;
        }
        Ok(Verdict::Version(version))
    }

    /// Judges a cas that has stored its value: the item had the version of the CAS value.
    fn judge_cas_success(&self, history: &mut History) -> Result<(), String> {
        let (cas, id) = self.operation.cas;
        match history.version(id) {
            Some(seen) if seen.is_possible(self.begin, self.end.stamp, self.tolerance_nanos) => {
                history.record(Evidence::Is(id), self.span());
                Ok(())
            }
            None if history.floor() >= self.begin.stamp => Ok(()),
            _ => Err(format!(
                "the cas with the CAS value {cas} has succeeded, but version {id} had been replaced"
            )),
        }
    }

    /// Judges a cas that was refused because the item has another CAS value.
    fn judge_exists(&self, history: &mut History) -> Judgement {
        let (cas, id) = self.operation.cas;
        history.refuse(self.operation.version);
        self.require_item(history, id).map_err(|_| {
            format!(
                "the cas with the CAS value {cas} was refused, but only version {id} is possible"
            )
        })?;
        history.record(Evidence::Not(id), self.span());
        Ok(Verdict::Possible)
    }

    fn complete_touch(
        &self,
        history: &mut History,
        outcome: &Outcome<'_>,
        verdict: Option<&Verdict>,
    ) {
        let touch = self.operation.version;
        match outcome {
            Outcome::Lost => {}
            Outcome::Miss | Outcome::Refused(_) => history.refuse(touch),
            _ => {
                history.complete_touch(touch, self.end.stamp, self.deadline_nanos());
                let is_reply = !matches!(outcome, Outcome::Silent);
                if let (Some(&Verdict::Version(id)), true) = (verdict, is_reply) {
                    let span = self.span();
                    if let Some(version) = history.version_mut(id) {
                        version.replace_expiries(touch, span);
                    }
                }
            }
        }
    }
}
