//! `-o drop_privileges`: confines the process after its start, so that an attacker who takes control of it can do little.
//!
//! ```text
//!   start: sockets, memory, files -> begin: files, allowed calls -> threads -> complete: forbidden calls -> clients
//! ```
//!
//! Three restrictions are set, and the kernel removes none of them until the process ends:
//!
//! - [`files`]: Landlock denies every access to a file, except the accesses of a running or stopping server, in the
//!   folders of the files that the settings name. The kernel may not support this.
//! - [`calls`], allowed: a system call that is not in the table fails with ENOSYS. A library that tries a newer call then
//!   uses an older one, as on an older kernel, and the server continues.
//! - [`calls`], forbidden: a system call that only an attacker makes, such as `execve`, ends the process.
//!
//! Invariants:
//!
//! - No client is served before the second restriction. Only the creation of threads is possible until the third one.
//! - The restrictions apply to all threads: new threads inherit the first two, and the third is set for all at once.
//!
//! With `-o upgradable`, a process that was started from outside receives open files from a confined one over a Unix socket:
//! only then is `sendmsg` allowed.

mod calls;
mod files;

use super::sys;
use crate::config::{IoKind, Settings};
use calls::{Features, Filters};
use std::io;

/// The reason why the process cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    #[error(
        "-o drop_privileges: the system refuses to filter system calls ({0}): use a Linux kernel with \
         CONFIG_SECCOMP_FILTER on x86_64, aarch64 or riscv64, start the server outside of a sandbox that forbids this, or \
         leave drop_privileges out"
    )]
    Filter(#[from] seccompiler::Error),
    #[error(
        "-o drop_privileges: cannot install the handler of SIGSYS: {0}; leave drop_privileges out"
    )]
    Handler(io::Error),
}

/// A process that is confined except for the calls that the creation of threads needs.
#[must_use = "the process can create threads until the confinement is complete"]
pub struct Confinement {
    filters: Filters,
}

impl Confinement {
    /// Limits the access to files and the system calls of the calling thread, which is the only one of the process.
    /// Without `-o drop_privileges`, does nothing and returns `None`.
    pub fn begin(settings: &Settings, io: IoKind) -> Result<Option<Confinement>, ConfineError> {
        if !settings.drop_privileges {
            return Ok(None);
        }
        let folders = files::folders(settings);
        let features = Features {
            accesses_files: !folders.is_empty(),
            has_memory_file: settings.memory_file.is_some(),
            uses_uring: io == IoKind::Uring,
            is_upgradable: settings.control_path.is_some(),
        };
        let filters = Filters::new(features).map_err(seccompiler::Error::from)?;
        files::restrict(&folders);
        sys::explain_forbidden_calls(calls::forbidden_names()).map_err(ConfineError::Handler)?;
        seccompiler::apply_filter(&filters.allowed)?;
        Ok(Some(Confinement { filters }))
    }

    /// Forbids the calls that the server does not make any more, for all threads.
    pub fn complete(self) -> Result<(), ConfineError> {
        seccompiler::apply_filter_all_threads(&self.filters.forbidden)?;
        tracing::info!(
            "drop_privileges: {} system calls are allowed, {} end the process, and others fail",
            self.filters.allowed_count,
            calls::forbidden_names().len()
        );
        Ok(())
    }
}
