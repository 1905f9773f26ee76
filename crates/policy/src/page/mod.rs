//! The page policies, one file each.

pub(crate) mod automove;
pub(crate) mod automove_classic;
pub(crate) mod cliffhanger;
pub(crate) mod cost_partition;
pub(crate) mod cost_per_byte;
mod draw;
pub(crate) mod dynacache;
pub(crate) mod eager;
pub(crate) mod lama;
pub(crate) mod marginal;
pub(crate) mod none;
pub(crate) mod psa;
pub(crate) mod reserved_cost;
pub(crate) mod tail_age;
pub(crate) mod twemcache;
