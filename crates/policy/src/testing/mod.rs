//! Curves and caches for tests of policies.

pub(crate) mod cache;
pub(crate) mod curves;

use crate::policy::Policy;
use crate::{Plan, Snapshot};
use slabwise_base::Random;

/// Takes a step of a policy that uses no random numbers.
pub(crate) fn step(policy: &mut impl Policy, snapshot: &Snapshot) -> Plan {
    policy.step(snapshot, &mut Random::new(1))
}
