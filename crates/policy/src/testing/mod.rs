//! Curves and caches to test policies on.

pub(crate) mod cache;
pub(crate) mod curves;

use crate::policy::Policy;
use crate::{Plan, Snapshot};
use slabwise_base::Random;

/// Steps a policy that needs no randomness.
pub(crate) fn step(policy: &mut impl Policy, snapshot: &Snapshot) -> Plan {
    policy.step(snapshot, &mut Random::new(1))
}
