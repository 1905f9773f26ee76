//! Everything that depends on the operating system: system calls ([`sys`], [`sockets`]); io_uring ([`uring`]); the users
//! of the system ([`users`]); limits, user, log and pid file of the process ([`process`]); the service manager that starts
//! the process ([`service`]); its control groups ([`control_groups`]), and the limits of its memory ([`memory_limits`])
//! and processors ([`processors`]); the memory file ([`restart`]); and the confinement of the process ([`confine`]).

pub mod channel;
pub mod confine;
pub mod control_groups;
pub mod inherited;
pub mod memory_limits;
pub mod process;
pub mod processors;
pub mod restart;
pub mod service;
pub mod sockets;
#[allow(unsafe_code)]
pub mod sys;
#[allow(unsafe_code)]
pub mod uring;
mod users;
