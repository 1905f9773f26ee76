//! The operating system: system calls ([`sys`]), the process with its limits, user, log and pid file ([`process`]),
//! and the memory file ([`restart`]).

pub mod process;
pub mod restart;
pub mod sys;
