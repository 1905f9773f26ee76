//! Each test shows that the checker finds a kind of wrong reply, and accepts the similar correct one.

use super::history::{Begin, End, Span};
use super::{Checker, Verdict};
use crate::operation::{Operation, Outcome, Place, Verb};
use crate::value::Values;

const SECOND: u64 = 1_000_000_000;
const KEY: u32 = 1;
const LEN: u32 = 100;

/// A checker, and requests whose stamps and times a test chooses. The server's clock shows as many seconds as the
/// number of the stamp.
struct Script {
    checker: Checker,
}

impl Script {
    fn new() -> Script {
        Script { checker: Checker::new(3, Values::new(1), 2 * SECOND) }
    }

    fn begin(&self, verb: Verb, stamp: u64) -> Operation {
        self.begin_with(verb, stamp, |_| {})
    }

    fn begin_with(&self, verb: Verb, stamp: u64, change: impl Fn(&mut Operation)) -> Operation {
        let mut operation = Operation {
            verb,
            key: KEY,
            version: 0,
            len: if verb.stores() { LEN } else { 0 },
            flags: 0,
            ttl_seconds: 0,
            cas: (0, 0),
            quiet: false,
            opaque: 0,
            place: Place::Alone,
        };
        change(&mut operation);
        self.checker.begin(&mut operation, begin(stamp), 0);
        operation
    }

    /// Ends a request. Returns the problem if the outcome is wrong.
    fn end(
        &self,
        operation: &Operation,
        outcome: Outcome<'_>,
        from: u64,
        to: u64,
    ) -> Result<Verdict, String> {
        let end = End { stamp: to, clock_max_nanos: to * SECOND };
        self.checker
            .end(operation, outcome, begin(from), end)
            .map_err(|violation| violation.text.lines().next().unwrap_or_default().to_owned())
    }

    /// Stores a version from one stamp to the other.
    fn store(&self, from: u64, to: u64) -> Operation {
        let operation = self.begin(Verb::Set, from);
        self.end(&operation, Outcome::Stored(None), from, to).expect("a set may succeed");
        operation
    }

    fn value(&self, operation: &Operation) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.checker.values().append(operation.key, operation.version, operation.len, &mut bytes);
        bytes
    }

    /// Reads the version of a store from one stamp to the other.
    fn read(&self, stored: &Operation, from: u64, to: u64) -> Result<Verdict, String> {
        let get = self.begin(Verb::Gets, from);
        let value = self.value(stored);
        let outcome = Outcome::Hit { flags: Some(stored.flags), cas: None, value: &value };
        self.end(&get, outcome, from, to)
    }

    /// Reads these bytes.
    fn read_bytes(&self, value: &[u8], flags: u32, from: u64) -> Result<Verdict, String> {
        let get = self.begin(Verb::Get, from);
        self.end(&get, Outcome::Hit { flags: Some(flags), cas: None, value }, from, from + 1)
    }

    /// Carries out a request without a value.
    fn carry_out(
        &self,
        verb: Verb,
        outcome: Outcome<'_>,
        from: u64,
        to: u64,
    ) -> Result<Verdict, String> {
        let operation = self.begin(verb, from);
        self.end(&operation, outcome, from, to)
    }
}

fn begin(stamp: u64) -> Begin {
    Begin { stamp, clock_min_nanos: stamp * SECOND }
}

/// Asserts that the problem contains a text.
fn assert_wrong(result: Result<Verdict, String>, expected: &str) {
    match result {
        Ok(verdict) => panic!("the checker must find a problem with '{expected}', not {verdict:?}"),
        Err(problem) => assert!(problem.contains(expected), "{problem:?} contains {expected:?}"),
    }
}

#[test]
fn a_stale_read_is_wrong() {
    let script = Script::new();
    let old = script.store(1, 2);
    let new = script.store(3, 6);
    // While the second store is open, and in a request that began before its end, both versions are possible.
    assert_eq!(script.read(&old, 4, 7), Ok(Verdict::Version(old.version)));
    assert_eq!(script.read(&new, 5, 7), Ok(Verdict::Version(new.version)));
    assert_wrong(script.read(&old, 8, 9), "had been replaced at stamp 6");
}

#[test]
fn after_a_read_of_the_new_version_the_old_one_is_wrong_even_while_the_store_is_open() {
    let script = Script::new();
    let old = script.store(1, 2);
    let new = script.begin(Verb::Set, 3);
    assert_eq!(script.read(&new, 4, 5), Ok(Verdict::Version(new.version)));
    assert_eq!(script.read(&old, 5, 8), Ok(Verdict::Version(old.version)));
    assert_wrong(script.read(&old, 6, 7), "had been replaced at stamp 5");
}

#[test]
fn replies_that_are_judged_late_still_count() {
    let script = Script::new();
    let first = script.begin(Verb::Set, 1);
    let second = script.begin(Verb::Set, 10);
    // The reply to the second store is judged before a read of the first one that had ended earlier.
    script.end(&second, Outcome::Stored(None), 10, 12).expect("a set may succeed");
    assert_eq!(script.read(&first, 3, 5), Ok(Verdict::Version(first.version)));
    assert_wrong(script.read(&first, 13, 14), "had been replaced at stamp 12");
}

#[test]
fn of_two_simultaneous_stores_either_may_remain_but_not_both() {
    let script = Script::new();
    let a = script.begin(Verb::Set, 1);
    let b = script.begin(Verb::Set, 2);
    script.end(&a, Outcome::Stored(None), 1, 4).expect("a set may succeed");
    script.end(&b, Outcome::Stored(None), 2, 3).expect("a set may succeed");
    assert_eq!(script.read(&a, 5, 6), Ok(Verdict::Version(a.version)));
    assert_wrong(script.read(&b, 7, 8), "had been replaced at stamp 6");
}

#[test]
fn torn_foreign_and_invented_values_are_wrong() {
    let script = Script::new();
    let old = script.store(1, 2);
    let new = script.store(3, 4);
    let mut torn = script.value(&new);
    torn[40..].copy_from_slice(&script.value(&old)[40..]);
    assert_wrong(script.read_bytes(&torn, new.flags, 5), "Torn");
    let foreign = script.begin_with(Verb::Set, 6, |operation| operation.key = 2);
    script.end(&foreign, Outcome::Stored(None), 6, 7).expect("a set may succeed");
    assert_wrong(script.read_bytes(&script.value(&foreign), foreign.flags, 8), "key: 2");
    assert_wrong(script.read_bytes(&[b'x'; 50], 0, 10), "Garbage");
    let cut = &script.value(&new)[..99];
    assert_wrong(script.read_bytes(cut, new.flags, 12), "Foreign");
    let mut invented = Vec::new();
    script.checker.values().append(KEY, 77, LEN, &mut invented);
    assert_wrong(script.read_bytes(&invented, 0, 14), "no request has stored version 77");
    assert_wrong(script.read_bytes(&script.value(&new), new.flags ^ 1, 16), "client flags");
}

#[test]
fn a_value_without_space_for_its_version_is_compared_with_the_possible_versions() {
    let script = Script::new();
    let short = |operation: &mut Operation| operation.len = 5;
    let old = script.begin_with(Verb::Set, 1, short);
    script.end(&old, Outcome::Stored(None), 1, 2).expect("a set may succeed");
    assert_eq!(script.read(&old, 3, 4), Ok(Verdict::Version(old.version)));
    let new = script.begin_with(Verb::Set, 5, short);
    script.end(&new, Outcome::Stored(None), 5, 6).expect("a set may succeed");
    assert_wrong(script.read(&old, 7, 8), "no possible version has this short value");
}

#[test]
fn an_item_that_was_deleted_missed_or_flushed_does_not_return() {
    let deleted = Script::new();
    let stored = deleted.store(1, 2);
    deleted.carry_out(Verb::Delete, Outcome::Deleted, 3, 5).expect("an item may be deleted");
    assert_eq!(deleted.read(&stored, 4, 6), Ok(Verdict::Version(stored.version)));
    assert_wrong(deleted.read(&stored, 6, 7), "had been replaced at stamp 5");

    let missed = Script::new();
    let stored = missed.store(1, 2);
    missed.carry_out(Verb::Get, Outcome::Miss, 3, 5).expect("a miss is always possible");
    assert_wrong(missed.read(&stored, 6, 7), "had been replaced at stamp 5");

    let flushed = Script::new();
    let stored = flushed.store(1, 2);
    let later = flushed.begin(Verb::Set, 4);
    flushed.checker.all_absent(Span { begin: 3, end: 5 });
    flushed.end(&later, Outcome::Stored(None), 4, 6).expect("a set may succeed");
    assert_eq!(flushed.read(&later, 7, 8), Ok(Verdict::Version(later.version)));
    assert_wrong(flushed.read(&stored, 7, 8), "had been replaced at stamp 5");
}

#[test]
fn outcomes_that_require_an_item_are_wrong_if_there_is_none() {
    let absent = "requires an item";
    for (verb, outcome) in [
        (Verb::Replace, Outcome::Stored(None)),
        (Verb::Add, Outcome::NotStored),
        (Verb::Delete, Outcome::Deleted),
        (Verb::Touch, Outcome::Touched),
    ] {
        assert_wrong(Script::new().carry_out(verb, outcome, 1, 2), absent);
    }
    let script = Script::new();
    script.store(3, 4);
    script.carry_out(Verb::Delete, Outcome::Deleted, 5, 6).expect("an item may be deleted");
    assert_wrong(script.carry_out(Verb::Delete, Outcome::Deleted, 7, 8), absent);
    assert_wrong(script.carry_out(Verb::Replace, Outcome::Stored(None), 9, 10), absent);
    script.carry_out(Verb::Add, Outcome::Stored(None), 11, 12).expect("an item may be added");
    script.carry_out(Verb::Add, Outcome::NotStored, 13, 14).expect("the item exists");
}

#[test]
fn a_refused_store_must_have_no_effect() {
    let script = Script::new();
    let old = script.store(1, 2);
    let refused = script.begin(Verb::Set, 3);
    script.end(&refused, Outcome::Refused(b"no memory"), 3, 4).expect("a store may be refused");
    assert_eq!(script.read(&old, 5, 6), Ok(Verdict::Version(old.version)));
    assert_wrong(script.read(&refused, 7, 8), "or its store was refused");
}

#[test]
fn an_expired_item_is_wrong() {
    let script = Script::new();
    let short = script.begin_with(Verb::Set, 1, |operation| operation.ttl_seconds = 3);
    script.end(&short, Outcome::Stored(None), 1, 2).expect("a set may succeed");
    // The item expires at second 5, and the tolerance is 2 seconds.
    assert_eq!(script.read(&short, 7, 8), Ok(Verdict::Version(short.version)));
    assert_wrong(script.read(&short, 8, 9), "had expired");
}

#[test]
fn a_touch_replaces_the_expiry() {
    let script = Script::new();
    let stored = script.store(1, 2);
    let touch = |ttl: u32, stamp: u64| {
        let touch = script.begin_with(Verb::Touch, stamp, |it| it.ttl_seconds = ttl);
        script.end(&touch, Outcome::Touched, stamp, stamp + 1).expect("the item exists")
    };
    touch(10, 3);
    assert_eq!(script.read(&stored, 16, 17), Ok(Verdict::Version(stored.version)));
    touch(20, 15);
    assert_eq!(script.read(&stored, 30, 31), Ok(Verdict::Version(stored.version)));
    touch(1, 32);
    assert_wrong(script.read(&stored, 37, 38), "had expired");
}

#[test]
fn while_a_touch_is_open_both_expiries_are_possible() {
    let script = Script::new();
    let short = script.begin_with(Verb::Set, 1, |operation| operation.ttl_seconds = 3);
    script.end(&short, Outcome::Stored(None), 1, 2).expect("a set may succeed");
    let touch = script.begin_with(Verb::Touch, 3, |operation| operation.ttl_seconds = 30);
    assert_eq!(script.read(&short, 20, 21), Ok(Verdict::Version(short.version)));
    script.end(&touch, Outcome::Miss, 3, 22).expect("a miss is always possible");
    assert_wrong(script.read(&short, 23, 24), "had been replaced");
}

#[test]
fn a_lost_touch_has_taken_effect_when_no_connection_is_open_or_the_process_has_ended() {
    let ends: [fn(&Checker, End); 2] = [Checker::settle, Checker::stopped];
    for end_all in ends {
        let script = Script::new();
        let short = script.begin_with(Verb::Set, 1, |operation| operation.ttl_seconds = 3);
        script.end(&short, Outcome::Stored(None), 1, 2).expect("a set may succeed");
        let touch = script.begin_with(Verb::Touch, 3, |operation| operation.ttl_seconds = 10);
        script.end(&touch, Outcome::Lost, 3, 4).expect("a connection may end");
        assert_eq!(script.read(&short, 40, 41), Ok(Verdict::Version(short.version)));
        end_all(&script.checker, End { stamp: 50, clock_max_nanos: 50 * SECOND });
        // The item expires at second 60, and the tolerance is 2 seconds.
        assert_eq!(script.read(&short, 62, 63), Ok(Verdict::Version(short.version)));
        assert_wrong(script.read(&short, 63, 64), "had expired");
    }
}

#[test]
fn a_cas_with_an_old_cas_value_must_fail() {
    let cas = |script: &Script, stamp: u64, version: u32, outcome| {
        let cas = script.begin_with(Verb::Cas, stamp, |it| it.cas = (9, version));
        script.end(&cas, outcome, stamp, stamp + 1).map(|_| cas.version)
    };
    let script = Script::new();
    let old = script.store(1, 2);
    let current = script.store(3, 4);
    let won = cas(&script, 5, current.version, Outcome::Stored(None)).expect("it is current");
    cas(&script, 7, current.version, Outcome::Exists).expect("the version was replaced");
    let wrong = cas(&script, 9, won, Outcome::Exists).map(Verdict::Version);
    assert_wrong(wrong, "only version");
    let wrong = cas(&script, 11, old.version, Outcome::Stored(None)).map(Verdict::Version);
    assert_wrong(wrong, "had been replaced");
}

#[test]
fn a_cas_value_identifies_one_version() {
    let script = Script::new();
    let read = |stored: &Operation, cas: u64, stamp: u64| {
        let get = script.begin(Verb::Gets, stamp);
        let value = script.value(stored);
        let outcome = Outcome::Hit { flags: None, cas: Some(cas), value: &value };
        script.end(&get, outcome, stamp, stamp + 1)
    };
    let first = script.store(1, 2);
    read(&first, 7, 3).expect("the version may have any CAS value");
    read(&first, 7, 5).expect("the CAS value has not changed");
    assert_wrong(read(&first, 8, 7), "has the CAS value Some(7), not 8");
    let second = script.store(9, 10);
    assert_wrong(read(&second, 7, 11), "have the same CAS value 7");
}

#[test]
fn a_store_of_a_lost_connection_may_take_effect_later() {
    let script = Script::new();
    let lost = script.begin(Verb::Set, 1);
    script.end(&lost, Outcome::Lost, 1, 2).expect("a connection may end");
    script.carry_out(Verb::Get, Outcome::Miss, 3, 4).expect("a miss is always possible");
    let other = script.store(5, 6);
    assert_eq!(script.read(&lost, 7, 8), Ok(Verdict::Version(lost.version)));
    assert_wrong(script.read(&other, 9, 10), "had been replaced at stamp 8");
}

#[test]
fn versions_that_no_open_request_can_read_are_forgotten() {
    let script = Script::new();
    let first = script.store(1, 2);
    for stamp in (3..200).step_by(2) {
        script.store(stamp, stamp + 1);
    }
    let mut get = script.begin(Verb::Get, 201);
    script.checker.begin(&mut get, begin(201), 201);
    assert_eq!(script.checker.versions(), 1);
    assert_wrong(script.read(&first, 203, 204), "was replaced long ago");
    // A request that began when the version was current cannot be judged any more.
    let value = script.value(&first);
    let outcome = Outcome::Hit { flags: None, cas: None, value: &value };
    assert_eq!(script.end(&get, outcome, 3, 205), Ok(Verdict::TooLate));
}
