//! What an operation reports beside its answer: to watchers, to the clock that measures what misses cost, and
//! to the counters by key prefix. An operation of `ops` calls each hook once.

pub(super) mod events;
pub(super) mod measuring;
pub(super) mod prefix_costs;
