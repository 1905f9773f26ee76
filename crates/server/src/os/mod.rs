//! The operating system: what the server asks of the kernel ([`sys`]), and what the process is ([`process`]): its
//! limits, its user, its log, its pid file and its memory file.

pub mod process;
pub mod restart;
pub mod sys;
