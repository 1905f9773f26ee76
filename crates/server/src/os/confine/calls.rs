//! The system calls of a confined server, and the two filters that the kernel applies to them.
//!
//! A call in a table can have several rows with different conditions: one of the conditions must apply. If a call is both
//! allowed and forbidden, it ends the process.

use crate::os::sys::ForbiddenCall;
use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use std::collections::{BTreeMap, BTreeSet};

/// A row of a table: a system call, and a condition on its arguments.
struct Call {
    number: libc::c_long,
    /// The name of the constant for the number.
    constant: &'static str,
    condition: Condition,
}

/// A condition on an argument of a system call. Arguments are counted from 0 and have 32 bits.
#[derive(Clone, Copy)]
enum Condition {
    /// The arguments do not matter.
    Always,
    /// The argument has this value.
    Equals(u8, libc::c_int),
    /// The argument has all of these bits.
    HasBits(u8, libc::c_int),
    /// The argument is the id of this process.
    IsThisProcess(u8),
}

/// Makes a row of a table.
macro_rules! call {
    ($number:ident) => {
        call!($number, Always)
    };
    ($number:ident, $condition:expr) => {
        Call { number: libc::$number, constant: stringify!($number), condition: $condition }
    };
}

use Condition::{Always, Equals, HasBits, IsThisProcess};

/// The calls of every server after its start.
static ALLOWED: &[Call] = &[
    // Connections, datagrams, wakers, and the pipe of the signal handlers; `write` also writes the log.
    call!(SYS_accept4),
    call!(SYS_read),
    call!(SYS_readv),
    call!(SYS_recvfrom),
    call!(SYS_recvmsg),
    call!(SYS_write),
    call!(SYS_writev),
    call!(SYS_sendto),
    call!(SYS_shutdown),
    call!(SYS_close),
    call!(SYS_fcntl, Equals(1, libc::F_GETFD)), // debug builds check a descriptor before they close it
    call!(SYS_fcntl, Equals(1, libc::F_GETFL)), // tokio checks that a socket does not block
    call!(SYS_getsockname),                     // the address to which a client connected
    call!(SYS_getpeername),
    call!(SYS_getsockopt),
    call!(SYS_setsockopt), // acknowledgments without delay
    call!(SYS_listen),     // the acceptor changes the backlog when it pauses
    // Waiting: event loops, locks, and the spinning of a lock.
    call!(SYS_epoll_ctl),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_epoll_wait),
    call!(SYS_epoll_pwait),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_poll),
    call!(SYS_ppoll),
    call!(SYS_futex),
    call!(SYS_sched_yield),
    call!(SYS_nanosleep),
    call!(SYS_clock_nanosleep),
    call!(SYS_restart_syscall), // the kernel continues an interrupted wait by this call
    // Memory: the allocator, the stacks of threads, and the pages of the arena.
    call!(SYS_brk),
    call!(SYS_mmap),
    call!(SYS_munmap),
    call!(SYS_mremap),
    call!(SYS_mprotect),
    call!(SYS_madvise),
    // Threads: a new thread prepares itself, and all threads end.
    call!(SYS_set_robust_list),
    call!(SYS_rseq),
    call!(SYS_sched_getaffinity),
    call!(SYS_sigaltstack),
    call!(SYS_prctl, Equals(0, libc::PR_SET_NAME)),
    call!(SYS_prctl, Equals(0, libc::PR_SET_VMA)), // names the stack of the signal handlers
    call!(SYS_exit),
    call!(SYS_exit_group),
    // Signals: their handlers, and `abort` after a violated invariant.
    call!(SYS_rt_sigaction),
    call!(SYS_rt_sigprocmask),
    call!(SYS_rt_sigreturn),
    call!(SYS_tgkill, IsThisProcess(0)),
    // Time, random numbers for TLS and hash maps, and numbers of `stats`.
    call!(SYS_clock_gettime),
    call!(SYS_gettimeofday),
    call!(SYS_getrandom),
    call!(SYS_getpid),
    call!(SYS_gettid),
    call!(SYS_getrusage),
    call!(SYS_pread64), // the resident memory, for the metrics
];

/// The calls of a server that opens, writes or removes files after its start.
static ALLOWED_WITH_FILES: &[Call] = &[
    // Certificates and password files are read again.
    call!(SYS_openat),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_open), // musl
    call!(SYS_statx),
    call!(SYS_newfstatat),
    call!(SYS_fstat),
    call!(SYS_lseek),
    // A graceful stop saves the memory file and its .meta file.
    call!(SYS_pwrite64),
    call!(SYS_fsync),
    call!(SYS_fdatasync),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_rename),
    // glibc renames files by this call on aarch64, where the crate libc lacks its number.
    #[cfg(target_arch = "aarch64")]
    Call { number: 38, constant: "SYS_renameat", condition: Always },
    call!(SYS_renameat2),
    // A stop removes the pid file, the Unix socket, and an old .meta file.
    #[cfg(target_arch = "x86_64")]
    call!(SYS_unlink),
    call!(SYS_unlinkat),
];

/// The calls of a server with a memory file (`-e`), whose file becomes longer and gets holes when the memory limit changes.
static ALLOWED_WITH_MEMORY_FILE: &[Call] =
    &[call!(SYS_fallocate), call!(SYS_ftruncate), call!(SYS_fstatfs)];

/// The calls of a server that uses io_uring. Its rings exist before the first filter, and each is restricted to the
/// operations in use. A worker enables its ring when it starts; afterwards, there is nothing to register.
static ALLOWED_WITH_URING: &[Call] =
    &[call!(SYS_io_uring_enter), call!(SYS_io_uring_register, Equals(1, ENABLE_RINGS))];

/// The calls of a server that another process can take over (`-o upgradable`): it sends open files and the state. Sending a
/// file is a right to pass on what this process has, so other servers lack it.
/// The memory of an upgradable server is always a file, which gets holes when the memory limit falls.
static ALLOWED_WITH_UPGRADES: &[Call] =
    &[call!(SYS_sendmsg), call!(SYS_pwrite64), call!(SYS_ftruncate), call!(SYS_fallocate)];

/// An operation of `io_uring_register`, from the kernel's header linux/io_uring.h.
const ENABLE_RINGS: libc::c_int = 12;

/// The calls that create threads and install the second filter. The second filter forbids them.
static ALLOWED_DURING_START: &[Call] = &[
    call!(SYS_clone),
    call!(SYS_clone3),
    call!(SYS_seccomp),
    call!(SYS_prctl, Equals(0, libc::PR_SET_NO_NEW_PRIVS)),
];

/// The calls that end the process. Each would give an attacker more power than the server has, and neither the server nor
/// its libraries make them after the start.
static FORBIDDEN: &[Call] = &[
    // Programs, processes and threads.
    call!(SYS_execve),
    call!(SYS_execveat),
    call!(SYS_clone),
    call!(SYS_clone3),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_fork),
    #[cfg(target_arch = "x86_64")]
    call!(SYS_vfork),
    // Code that was not part of the program.
    call!(SYS_mmap, HasBits(2, libc::PROT_EXEC)),
    call!(SYS_mprotect, HasBits(2, libc::PROT_EXEC)),
    call!(SYS_pkey_mprotect, HasBits(2, libc::PROT_EXEC)),
    call!(SYS_personality),
    call!(SYS_memfd_create),
    // New connections and listeners.
    call!(SYS_socket),
    call!(SYS_connect),
    call!(SYS_bind),
    // Other processes.
    call!(SYS_ptrace),
    call!(SYS_process_vm_readv),
    call!(SYS_process_vm_writev),
    call!(SYS_pidfd_open),
    call!(SYS_pidfd_getfd),
    call!(SYS_pidfd_send_signal),
    call!(SYS_kill),
    // Users, rights and namespaces.
    call!(SYS_setuid),
    call!(SYS_setgid),
    call!(SYS_setreuid),
    call!(SYS_setregid),
    call!(SYS_setresuid),
    call!(SYS_setresgid),
    call!(SYS_setfsuid),
    call!(SYS_setfsgid),
    call!(SYS_setgroups),
    call!(SYS_capset),
    call!(SYS_unshare),
    call!(SYS_setns),
    call!(SYS_chroot),
    call!(SYS_pivot_root),
    call!(SYS_mount),
    call!(SYS_umount2),
    call!(SYS_open_tree),
    call!(SYS_move_mount),
    call!(SYS_fsopen),
    call!(SYS_open_by_handle_at),
    // Interfaces of the kernel that had many vulnerabilities.
    call!(SYS_bpf),
    call!(SYS_perf_event_open),
    call!(SYS_userfaultfd),
    call!(SYS_io_uring_setup),
    call!(SYS_add_key),
    call!(SYS_request_key),
    call!(SYS_keyctl),
    call!(SYS_init_module),
    call!(SYS_finit_module),
    call!(SYS_delete_module),
    call!(SYS_kexec_load),
    // The confinement itself.
    call!(SYS_seccomp),
    call!(SYS_rt_sigaction, Equals(0, libc::SIGSYS)),
];

/// The calls that end a process that does not use io_uring.
static FORBIDDEN_WITHOUT_URING: &[Call] =
    &[call!(SYS_io_uring_enter), call!(SYS_io_uring_register)];

/// What determines the calls of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Features {
    /// The server opens or changes files after its start.
    pub accesses_files: bool,
    /// The server has a memory file (`-e`).
    pub has_memory_file: bool,
    pub uses_uring: bool,
    /// Another process can take over (`-o upgradable`).
    pub is_upgradable: bool,
}

/// Returns the tables of the calls that a server makes after its start.
fn allowed_tables(features: Features) -> Vec<&'static [Call]> {
    let mut tables = vec![ALLOWED];
    tables.extend(features.accesses_files.then_some(ALLOWED_WITH_FILES));
    tables.extend(features.has_memory_file.then_some(ALLOWED_WITH_MEMORY_FILE));
    tables.extend(features.uses_uring.then_some(ALLOWED_WITH_URING));
    tables.extend(features.is_upgradable.then_some(ALLOWED_WITH_UPGRADES));
    tables
}

/// The filters of the system calls, as programs of the kernel's virtual machine.
pub struct Filters {
    /// Allows the calls of the server and those that create threads. All others fail with ENOSYS.
    pub allowed: BpfProgram,
    /// Raises SIGSYS at the forbidden calls.
    pub forbidden: BpfProgram,
    /// The number of system calls that the server can make when both filters are set.
    pub allowed_count: usize,
}

impl Filters {
    /// Makes the filters of a server with these features.
    pub fn new(features: Features) -> Result<Filters, BackendError> {
        let mut tables = allowed_tables(features);
        let numbers: BTreeSet<_> =
            tables.iter().copied().flatten().map(|call| call.number).collect();
        tables.push(ALLOWED_DURING_START);
        let mut forbidden = vec![FORBIDDEN];
        forbidden.extend((!features.uses_uring).then_some(FORBIDDEN_WITHOUT_URING));
        let failure = SeccompAction::Errno(libc::ENOSYS as u32);
        Ok(Filters {
            allowed: program(&tables, failure, SeccompAction::Allow)?,
            forbidden: program(&forbidden, SeccompAction::Allow, SeccompAction::Trap)?,
            allowed_count: numbers.len(),
        })
    }
}

/// Returns the forbidden calls with their names.
pub fn forbidden_names() -> Vec<ForbiddenCall> {
    let name = |call: &Call| (call.number, call.constant.trim_start_matches("SYS_"));
    FORBIDDEN.iter().chain(FORBIDDEN_WITHOUT_URING).map(name).collect()
}

/// Returns the program of a filter that takes the action `listed` for the calls in the tables, and the action `other` for
/// all other calls.
fn program(
    tables: &[&[Call]],
    other: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in tables.iter().copied().flatten() {
        // A call without rules matches whatever its arguments are.
        let chain = rules.entry(call.number).or_default();
        if let Some(condition) = call.condition.compile()? {
            chain.push(SeccompRule::new(vec![condition])?);
        }
    }
    SeccompFilter::new(rules, other, listed, std::env::consts::ARCH.try_into()?)?.try_into()
}

impl Condition {
    /// Returns the condition for the filter's compiler, or `None` if the arguments do not matter.
    fn compile(self) -> Result<Option<SeccompCondition>, BackendError> {
        let (argument, operator, value) = match self {
            Always => return Ok(None),
            Equals(argument, value) => (argument, SeccompCmpOp::Eq, value as u32),
            HasBits(argument, bits) => (argument, SeccompCmpOp::MaskedEq(bits as u64), bits as u32),
            IsThisProcess(argument) => (argument, SeccompCmpOp::Eq, std::process::id()),
        };
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value.into()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ALLOWED, ALLOWED_DURING_START, ALLOWED_WITH_FILES, ALLOWED_WITH_MEMORY_FILE,
        ALLOWED_WITH_UPGRADES, ALLOWED_WITH_URING, Always, Call, FORBIDDEN,
        FORBIDDEN_WITHOUT_URING, Features, Filters,
    };
    use std::collections::BTreeSet;

    /// Returns the numbers of the calls in a table that have a row without a condition.
    fn unconditional(table: &[Call]) -> BTreeSet<i64> {
        let rows = table.iter().filter(|call| matches!(call.condition, Always));
        rows.map(|call| call.number).collect()
    }

    #[test]
    fn no_call_is_both_allowed_and_forbidden() {
        let allowed = ALLOWED.iter().chain(ALLOWED_WITH_FILES).chain(ALLOWED_WITH_URING);
        let allowed = allowed.chain(ALLOWED_WITH_UPGRADES).chain(ALLOWED_WITH_MEMORY_FILE);
        let allowed: BTreeSet<i64> = allowed.map(|call| call.number).collect();
        let both: Vec<_> = unconditional(FORBIDDEN).intersection(&allowed).copied().collect();
        assert_eq!(both, [0; 0], "the numbers of the calls in both tables");
    }

    #[test]
    fn a_call_with_a_condition_has_no_row_without_one() {
        // The row without a condition would have no effect.
        for table in [
            ALLOWED,
            ALLOWED_WITH_FILES,
            ALLOWED_WITH_MEMORY_FILE,
            ALLOWED_WITH_URING,
            ALLOWED_WITH_UPGRADES,
            ALLOWED_DURING_START,
            FORBIDDEN,
            FORBIDDEN_WITHOUT_URING,
        ] {
            let always = unconditional(table);
            let other = table.iter().filter(|call| !matches!(call.condition, Always));
            let names: Vec<_> = other
                .filter(|call| always.contains(&call.number))
                .map(|call| call.constant)
                .collect();
            assert_eq!(names, [""; 0]);
        }
    }

    #[test]
    fn a_server_without_files_io_uring_or_upgrades_can_make_fewer_calls() {
        let count = |features| Filters::new(features).expect("the tables are valid").allowed_count;
        let fewest = Features::default();
        let least = count(fewest);
        let with_files = count(Features { accesses_files: true, ..fewest });
        assert_eq!(with_files, least + ALLOWED_WITH_FILES.len());
        let with_uring = count(Features { uses_uring: true, ..fewest });
        assert_eq!(with_uring, least + ALLOWED_WITH_URING.len());
        let with_upgrades = count(Features { is_upgradable: true, ..fewest });
        assert_eq!(with_upgrades, least + ALLOWED_WITH_UPGRADES.len());
    }
}
