//! System calls for the process, its clocks, signals and descriptors, through the safe wrappers of rustix and nix. A
//! port of the server to another operating system replaces this file and `sockets`.
//!
//! This file has unsafe code for the actions of signals, the descriptors that a service manager passes, and an operation
//! of a debug command. The only other unsafe code of the server is in `uring`.

use nix::libc::{self, c_int, c_void, siginfo_t};
use nix::sys::signal::{self, SaFlags, SigAction, SigHandler, SigSet, Signal};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, Rlimit};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Returns an event counter (`eventfd`), which wakes an event loop each time it is incremented.
pub fn event_counter() -> io::Result<OwnedFd> {
    use rustix::event::EventfdFlags;
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Increments an event counter. It has 64 bits, so it does not overflow.
pub fn increment(counter: BorrowedFd<'_>) {
    // An error is impossible: the counter is open, and its maximum is not reached.
    let _ = rustix::io::write(counter, &1u64.to_ne_bytes());
}

/// Sets an event counter to 0.
pub fn clear(counter: BorrowedFd<'_>) {
    // An error means that the counter is 0.
    let _ = rustix::io::read(counter, &mut [0u8; 8]);
}

/// Returns a file in memory that has no name in a file system.
pub fn nameless_file(label: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create(label, rustix::fs::MemfdFlags::CLOEXEC)?)
}

/// Returns the processor time that the calling thread has used since its start.
pub fn thread_processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Makes the parent process the tracer of this process.
pub fn become_traced() -> io::Result<()> {
    Ok(nix::sys::ptrace::traceme()?)
}

/// Maps a page of memory whose bytes can be executed, and unmaps it.
pub fn map_executable_memory() -> io::Result<()> {
    const LEN: usize = 4096;
    // SAFETY: the address is null, so the system chooses a free range and does not replace an existing mapping.
    let mapped = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            LEN,
            ProtFlags::READ | ProtFlags::EXEC,
            MapFlags::PRIVATE,
        )
    }?;
    // SAFETY: the range is the new mapping, and nothing refers to it.
    Ok(unsafe { rustix::mm::munmap(mapped, LEN) }?)
}

/// The first descriptor that a service manager passes: SD_LISTEN_FDS_START of sd-daemon.h.
const PASSED_START: i32 = 3;
/// True if [`take_passed_descriptors`] has returned the descriptors.
static PASSED_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns the first `count` descriptors that a service manager has passed to this process. They are closed when the
/// process runs another program. A later call returns none.
pub fn take_passed_descriptors(count: i32) -> io::Result<Vec<OwnedFd>> {
    if PASSED_TAKEN.swap(true, Relaxed) {
        return Ok(Vec::new());
    }
    let take = |number| {
        // SAFETY: the descriptor is only borrowed for this call, which fails if the descriptor is not open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
        // SAFETY: the descriptor is open. The service manager has opened it for this process, nothing else in this process
        // uses it, and `PASSED_TAKEN` guarantees that it gets only one owner.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    };
    (PASSED_START..PASSED_START.saturating_add(count)).map(take).collect()
}

/// Raises the limit of open files to `wanted`, or to the highest possible limit of at least `needed`. Returns the new
/// limit. If the highest possible limit is below `needed`, returns that limit as an error.
pub fn raise_open_files(needed: u64, wanted: u64) -> Result<u64, u64> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if soft >= wanted {
        return Ok(soft);
    }
    for target in [wanted, needed.max(hard.min(wanted))] {
        let raised = Rlimit { current: Some(target), maximum: Some(target.max(hard)) };
        if rustix::process::setrlimit(Resource::Nofile, raised).is_ok() {
            return Ok(target);
        }
    }
    if soft >= needed { Ok(soft) } else { Err(soft.max(hard)) }
}

/// Raises the limit of the size of core files to the highest possible limit. Returns false if that limit is 0.
pub fn raise_core_limit() -> bool {
    let unlimited = Rlimit { current: None, maximum: None };
    if rustix::process::setrlimit(Resource::Core, unlimited).is_err() {
        let hard = rustix::process::getrlimit(Resource::Core).maximum;
        let raised = Rlimit { current: hard, maximum: hard };
        // A failure is ignored here, because the last line of this function checks the resulting limit.
        let _ = rustix::process::setrlimit(Resource::Core, raised);
    }
    rustix::process::getrlimit(Resource::Core).current != Some(0)
}

/// Locks all current and future memory of the process. The kernel locks a page when the process first uses the page,
/// because the engine reserves more addresses than it uses.
pub fn lock_memory() -> io::Result<()> {
    use rustix::mm::MlockAllFlags;
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    Ok(rustix::mm::mlockall(flags)?)
}

/// True if the file, or its folder if the file does not exist, is on a file system in memory.
pub fn is_on_ram_disk(path: &Path) -> bool {
    // The constants are from the kernel's header linux/magic.h: TMPFS_MAGIC, RAMFS_MAGIC and HUGETLBFS_MAGIC.
    const IN_MEMORY: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
    let folder = path.parent().unwrap_or(path);
    let found = rustix::fs::statfs(path).or_else(|_| rustix::fs::statfs(folder));
    found.is_ok_and(|file_system| IN_MEMORY.contains(&(file_system.f_type as u64)))
}

/// True if the real or the effective user of the process is root.
pub fn is_root() -> bool {
    rustix::process::getuid().is_root() || rustix::process::geteuid().is_root()
}

/// Returns the id of the effective user.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Changes the user and the group of the process.
pub fn become_user(id: u32, group_id: u32) -> io::Result<()> {
    use nix::errno::Errno as NixErrno;
    use nix::unistd::{self, Gid, Uid};
    match unistd::setgroups(&[]) {
        // EPERM means that the process may not change its groups. It then keeps the groups that it has.
        Ok(()) | Err(NixErrno::EPERM) => {}
        Err(errno) => return Err(errno.into()),
    }
    unistd::setgid(Gid::from_raw(group_id))?;
    Ok(unistd::setuid(Uid::from_raw(id))?)
}

/// Makes the process a daemon. Changes the working directory to `/` unless `keep_directory` is true, and redirects the
/// standard streams to `/dev/null` unless `keep_streams` is true. The caller spawns threads only after this call.
pub fn daemonize(keep_directory: bool, keep_streams: bool) -> io::Result<()> {
    Ok(nix::unistd::daemon(keep_directory, keep_streams)?)
}

/// The process that a call of [`fork`] returns in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    Parent,
    Child,
}

/// Makes a copy of the process. Fails if the process has several threads, because the copy would have only one of them.
pub fn fork() -> io::Result<Forked> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("the process has several threads"));
    }
    // SAFETY: this thread is the only one, as was just checked, so no other thread holds a lock in the copy.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { .. } => Ok(Forked::Parent),
        nix::unistd::ForkResult::Child => Ok(Forked::Child),
    }
}

/// Detaches the process from its terminal. Changes the working directory to `/` unless `keep_directory` is true.
pub fn leave_terminal(keep_directory: bool) -> io::Result<()> {
    nix::unistd::setsid()?;
    if !keep_directory {
        std::env::set_current_dir("/")?;
    }
    Ok(())
}

/// Redirects the standard streams to `/dev/null`.
pub fn close_streams() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// True if a process with this id exists.
pub fn process_exists(id: i32) -> bool {
    rustix::process::Pid::from_raw(id)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// The first address at which the memory file is mapped, and the address after the last one. Both are 0 without `-e`.
static MEMORY_FILE_START: AtomicUsize = AtomicUsize::new(0);
static MEMORY_FILE_END: AtomicUsize = AtomicUsize::new(0);
/// The line that the handler of SIGBUS writes. It is composed in advance, because a signal handler must not allocate.
static BUS_ERROR_MESSAGE: OnceLock<String> = OnceLock::new();
/// True if a thread has started to write the line.
static BUS_ERROR_IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Sets the addresses at which the memory file is mapped, for [`explain_bus_errors`].
pub fn set_memory_file_addresses(addresses: Range<usize>) {
    MEMORY_FILE_START.store(addresses.start, Relaxed);
    MEMORY_FILE_END.store(addresses.end, Relaxed);
}

/// From now on, a bus error at an address of the memory file writes `message` to stderr before it ends the process. Other
/// bus errors end the process without a message.
pub fn explain_bus_errors(message: String) -> io::Result<()> {
    // The cell is already set only if a process opens several memory files, as tests do. Then the first message stays.
    let _ = BUS_ERROR_MESSAGE.set(message);
    install_handler(Signal::SIGBUS, on_bus_error, SaFlags::empty())
}

/// From now on, a write beyond the limit of file sizes (`ulimit -f`) returns an error and does not end the process.
pub fn ignore_file_size_signal() -> io::Result<()> {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: the action is to ignore the signal, so no handler is installed.
    unsafe { signal::sigaction(Signal::SIGXFSZ, &ignore) }?;
    Ok(())
}

/// Installs a handler of a fatal signal. The handler runs on the alternate stack of its thread, and may raise the signal
/// itself.
fn install_handler(
    signal: Signal,
    handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void),
    flags: SaFlags,
) -> io::Result<()> {
    let flags = flags | SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK | SaFlags::SA_NODEFER;
    let action = SigAction::new(SigHandler::SigAction(handler), flags, SigSet::empty());
    // SAFETY: the handlers of this file call only async-signal-safe functions.
    unsafe { signal::sigaction(signal, &action) }?;
    Ok(())
}

/// The handler of SIGBUS.
extern "C" fn on_bus_error(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer to a handler with SA_SIGINFO.
    let info = unsafe { &*info };
    if info.si_code == libc::BUS_ADRERR {
        // SAFETY: a SIGBUS with this code has an address: the kernel raised it, because a mapping has no memory there.
        let address = unsafe { info.si_addr() }.addr();
        let mapped = MEMORY_FILE_START.load(Relaxed)..MEMORY_FILE_END.load(Relaxed);
        if let Some(message) = BUS_ERROR_MESSAGE.get()
            && mapped.contains(&address)
        {
            // The process ends when the first thread has written the line, so other threads wait.
            while BUS_ERROR_IS_REPORTED.swap(true, Relaxed) {
                std::thread::yield_now();
            }
            write_to_stderr([message]);
        }
    }
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the action is the default action, so no handler is installed.
    let _ = unsafe { signal::sigaction(Signal::SIGBUS, &default) };
    end_by(Signal::SIGBUS);
}

/// A system call that ends the process: its number, and its name for the message.
pub type ForbiddenCall = (libc::c_long, &'static str);

/// The system calls that [`explain_forbidden_calls`] names.
static FORBIDDEN_CALLS: OnceLock<Vec<ForbiddenCall>> = OnceLock::new();

/// From now on, a system call at which a filter raises SIGSYS ends the process with a message that names the call.
pub fn explain_forbidden_calls(names: Vec<ForbiddenCall>) -> io::Result<()> {
    // The cell is still empty, because a process is confined at most once.
    let _ = FORBIDDEN_CALLS.set(names);
    // The filter also forbids to change the handler of SIGSYS, so the kernel restores the default action.
    install_handler(Signal::SIGSYS, on_forbidden_call, SaFlags::SA_RESETHAND)
}

/// The first fields of `siginfo_t` if the signal is SIGSYS and a filter of system calls raised it, on a 64-bit system.
#[repr(C)]
struct ForbiddenCallInfo {
    signal: c_int,
    errno: c_int,
    code: c_int,
    padding: c_int,
    instruction: *mut c_void,
    call: c_int,
}

/// The value of the field `code` if a filter of system calls raised SIGSYS.
const SYS_SECCOMP: c_int = 1;

/// The handler of SIGSYS.
extern "C" fn on_forbidden_call(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer to a `siginfo_t`, which is larger than this type, and whose bytes are all
    // initialised.
    let info = unsafe { &*info.cast::<ForbiddenCallInfo>() };
    if info.code == SYS_SECCOMP {
        let calls = FORBIDDEN_CALLS.get().map_or(&[][..], Vec::as_slice);
        let found = calls.iter().find(|&&(number, _)| number == libc::c_long::from(info.call));
        write_to_stderr([
            "slabwise: the system call ",
            found.map_or("that was made", |&(_, name)| name),
            " is forbidden by -o drop_privileges, so the server ends by SIGSYS: either the server was attacked, or it \
             has a fault: report this line, or start the server with -o no_drop_privileges\n",
        ]);
    }
    end_by(Signal::SIGSYS);
}

/// Writes the parts of a line to stderr, together. An error is ignored, because the process is about to end.
fn write_to_stderr<const PARTS: usize>(parts: [&str; PARTS]) {
    let slices = parts.map(|part| IoSlice::new(part.as_bytes()));
    let _ = rustix::io::writev(io::stderr(), &slices);
}

/// Ends the process by a signal whose action is the default action, so that the exit status shows the signal.
fn end_by(signal: Signal) -> ! {
    let _ = signal::raise(signal);
    // SAFETY: the function has no preconditions. The exit code is the one that shells show for a process that a signal
    // has ended.
    unsafe { libc::_exit(128 + signal as c_int) }
}
