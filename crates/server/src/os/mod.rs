//! Everything that depends on the operating system: system calls ([`sys`]); limits, user, log and pid file of the
//! process ([`process`]); and the memory file ([`restart`]).

pub mod process;
pub mod restart;
pub mod sys;
