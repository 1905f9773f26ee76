//! Stand-in: who is connected.
use slabwise_base::Now;

/// Stand-in: who is connected.
#[derive(Debug, Default)]
pub struct Roster;

impl Roster {
    /// Calls `line` with each name and value of `stats conns`.
    pub fn for_each(&self, _now: Now, mut line: impl FnMut(&str, &str)) {
        line("5:addr", "tcp:127.0.0.1:11211");
    }
}
