//! Everything that depends on the operating system: system calls ([`sys`]); io_uring
//! ([`uring`]); limits, user, log and pid file of the
//! process ([`process`]); the limits of its memory ([`memory_limits`]); the memory file ([`restart`]); and the
//! confinement of the process ([`confine`]).

pub mod confine;
pub mod memory_limits;
pub mod process;
pub mod restart;
#[allow(unsafe_code)]
pub mod sys;
#[allow(unsafe_code)]
pub mod uring;
