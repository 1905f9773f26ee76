//! Comparison of the replies of two servers.

use crate::normalise::normalise;
use crate::player::{End, Reply};
use crate::step::Dialect;
use std::collections::HashMap;

/// CAS values below this number are never assigned by a server during a comparison, because the runner first makes the
/// servers assign as many.
pub const ASSIGNED_CAS_MIN: u64 = 1000;
/// CAS values from this number on are never assigned by a server, so that commands can supply them.
pub const SUPPLIED_CAS_MIN: u64 = 1 << 30;

/// The correspondence of the CAS values of two servers: a bijection of the values that the servers assigned.
#[derive(Default)]
pub struct CasValues {
    second_of_first: HashMap<u64, u64>,
    first_of_second: HashMap<u64, u64>,
}

impl CasValues {
    /// True if two CAS values may appear at the same place. Values that a client supplied are equal. Otherwise two
    /// values correspond if neither has appeared before, or if they have appeared together.
    fn correspond(&mut self, first: u64, second: u64) -> bool {
        let is_assigned = |cas| (ASSIGNED_CAS_MIN..SUPPLIED_CAS_MIN).contains(&cas);
        if !is_assigned(first) || !is_assigned(second) {
            return first == second;
        }
        *self.second_of_first.entry(first).or_insert(second) == second
            && *self.first_of_second.entry(second).or_insert(first) == first
    }
}

/// The reason why two replies differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The connections are in different states after the replies.
    End,
    /// The bytes differ.
    Bytes,
    /// The CAS values do not correspond.
    Cas,
    /// A number of seconds differs by more than the times at which the servers carried out the commands.
    Seconds,
}

/// Compares two replies to the same step. Numbers of seconds may differ by `seconds_max`. A server that is stuck is never
/// right, even if both are.
pub fn compare(
    cas_values: &mut CasValues,
    dialect: Dialect,
    first: &Reply,
    second: &Reply,
    seconds_max: u64,
) -> Result<(), Mismatch> {
    if first.end != second.end || second.end == End::Stuck {
        return Err(Mismatch::End);
    }
    let [first, second] = [first, second].map(|reply| normalise(dialect, &reply.bytes));
    if first.bytes != second.bytes {
        return Err(Mismatch::Bytes);
    }
    let mut pairs = first.cas.iter().zip(&second.cas);
    if !pairs.all(|((_, first), (_, second))| cas_values.correspond(*first, *second)) {
        return Err(Mismatch::Cas);
    }
    let mut pairs = first.seconds.iter().zip(&second.seconds);
    if !pairs.all(|(first, second)| first.abs_diff(*second) <= seconds_max) {
        return Err(Mismatch::Seconds);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{CasValues, Mismatch, compare};
    use crate::player::{End, Reply};
    use crate::step::Dialect;

    fn compare_texts(values: &mut CasValues, first: &str, second: &str) -> Result<(), Mismatch> {
        let reply = |text: &str| Reply { bytes: text.as_bytes().to_vec(), end: End::Marker };
        compare(values, Dialect::Text, &reply(first), &reply(second), 3)
    }

    #[test]
    fn cas_values_correspond_if_they_always_appear_together() {
        let mut values = CasValues::default();
        let compare = |values: &mut _, first: u64, second: u64| {
            compare_texts(values, &format!("HD c{first}\r\n"), &format!("HD c{second}\r\n"))
        };
        assert_eq!(compare(&mut values, 2001, 3001), Ok(()));
        assert_eq!(compare(&mut values, 2002, 3005), Ok(()));
        assert_eq!(compare(&mut values, 2001, 3001), Ok(()));
        assert_eq!(compare(&mut values, 2001, 3005), Err(Mismatch::Cas));
        assert_eq!(compare(&mut values, 2003, 3001), Err(Mismatch::Cas));
        assert_eq!(compare(&mut values, 0, 0), Ok(()));
        assert_eq!(compare(&mut values, 0, 3001), Err(Mismatch::Cas));
        assert_eq!(compare(&mut values, 1 << 41, 1 << 41), Ok(()));
        assert_eq!(compare(&mut values, 1 << 41, 3009), Err(Mismatch::Cas));
    }

    #[test]
    fn seconds_may_differ_by_the_given_number() {
        let mut values = CasValues::default();
        assert_eq!(compare_texts(&mut values, "HD t100\r\n", "HD t97\r\n"), Ok(()));
        let difference = compare_texts(&mut values, "HD t100\r\n", "HD t96\r\n");
        assert_eq!(difference, Err(Mismatch::Seconds));
        assert_eq!(compare_texts(&mut values, "HD t100\r\n", "HD t-1\r\n"), Err(Mismatch::Bytes));
    }

    #[test]
    fn two_servers_that_are_stuck_differ() {
        let stuck = Reply { bytes: Vec::new(), end: End::Stuck };
        let result = compare(&mut CasValues::default(), Dialect::Text, &stuck, &stuck, 3);
        assert_eq!(result, Err(Mismatch::End));
    }
}
