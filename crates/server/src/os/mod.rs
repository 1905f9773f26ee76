//! Everything that depends on the operating system: system calls ([`sys`]); limits, user, log and pid file of the
//! process ([`process`]); the limits of its memory ([`memory_limits`]); and the memory file ([`restart`]).

pub mod memory_limits;
pub mod process;
pub mod restart;
pub mod sys;
