//! io_uring, through the crate `io-uring`: a ring of one thread, with provided buffers and a table of files. This file has
//! the unsafe code for io_uring; its interface is safe.
//!
//! ```text
//!   receive, poll, cancel, set_file, send --> submission queue --enter--> kernel --> Done
//!                                                                           ^         |
//!                        buffer table ------ provided buffers --------------'         |
//!                              ^------------------ give_back <----- Received <--------'
//! ```
//!
//! The kernel works for a ring only while its thread is in [`Ring::enter`] (`IORING_SETUP_DEFER_TASKRUN`). Two invariants
//! follow, which make the shared memory safe:
//!
//! - ONE-OWNER: a provided buffer belongs either to the kernel or to a [`Received`], which only a completion makes, and
//!   which [`Ring::give_back`] consumes. So nobody reads a buffer that the kernel may write.
//! - SENT-AT-ONCE: a send has the flag `MSG_DONTWAIT`, so it succeeds, partly succeeds or fails when it is submitted, and
//!   never later. The ring owns the bytes until the kernel has taken all submissions. A send that succeeds causes no
//!   completion (`IOSQE_CQE_SKIP_SUCCESS`), so the call that submits it can also wait for events.
//!
//! [`check`] refuses a kernel that lacks one of the features, or whose sends behave otherwise. A ring is restricted to the
//! operations of this file (`IORING_REGISTER_RESTRICTIONS`).

use io_uring::register::Restriction;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{BufRingEntry, CancelBuilder, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use nix::libc;
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU16, Ordering};
use std::time::Duration;

/// The number of submissions for which the queue has room. More are submitted in several system calls.
const SUBMISSIONS_MAX: u32 = 512;
/// The number of completions for which the queue has room. The kernel keeps more in a list of its own.
const COMPLETIONS_MAX: u32 = 4096;
/// The number of provided buffers, a power of two.
const BUFFERS: u16 = 256;
/// The length of a provided buffer, in bytes.
const BUFFER_BYTES: usize = 4 << 10;
/// The distance between the starts of two buffers. It is not a power of two, so that the starts, which are all that short
/// requests use, are spread over all sets of the processor's caches.
const BUFFER_STRIDE_BYTES: usize = BUFFER_BYTES + 64;
/// The memory of the provided buffers of a ring, in bytes.
pub const BUFFERS_SIZE_BYTES: usize = BUFFERS as usize * BUFFER_STRIDE_BYTES;
/// The memory of the queues of a ring and of its table of buffers, in bytes.
pub const QUEUES_SIZE_BYTES: usize = SUBMISSIONS_MAX as usize * size_of::<Entry>()
    + COMPLETIONS_MAX as usize * size_of::<cqueue::Entry>()
    + (12 << 10);
/// The number of calls after which the kernel must have taken every submission.
const ENTERS_MAX: usize = 1 << 16;

/// The two highest bits of a request's user data: what its completion means.
const TAG_SHIFT: u32 = 62;
/// The other bits are the caller's key.
const KEY_TAG: u64 = 0;
/// The other bits are the index of a send.
const SEND_TAG: u64 = 1;
/// The completion does not matter.
const IGNORED_TAG: u64 = 2;

/// The conditions that a poll waits for. An error of the file is always one of them.
pub mod poll {
    use nix::libc;

    /// Input can be received.
    pub const IN: u32 = libc::POLLIN as u32;
    /// Output can be sent.
    pub const OUT: u32 = libc::POLLOUT as u32;
    /// There is an error.
    pub const ERROR: u32 = libc::POLLERR as u32;
    /// Both sides of the connection are closed.
    pub const HANG_UP: u32 = libc::POLLHUP as u32;
}

/// A provided buffer that the kernel has filled.
#[must_use = "a buffer that is not given back is lost"]
#[derive(Debug)]
pub struct Received {
    id: u16,
    len: usize,
}

/// The completion of a receive request or a poll.
#[derive(Debug)]
pub struct Completion {
    /// The key of the request.
    pub key: u64,
    /// The number of bytes, or the conditions of a poll.
    pub result: Result<u32, Errno>,
    /// The received bytes.
    pub received: Option<Received>,
    /// True if further completions of the same request follow.
    pub more: bool,
}

/// The outcome of a send.
#[derive(Debug)]
pub struct Sent {
    pub key: u64,
    /// The bytes that were to be sent.
    pub bytes: Vec<u8>,
    /// The number of bytes that the socket has taken, or its error. A full socket takes no byte.
    pub taken: Result<usize, Errno>,
}

/// How long a call of [`Ring::enter`] waits for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It only submits: the kernel does not continue requests that it has taken before.
    No,
    /// At most for this time, which may be 0.
    For(Duration),
    /// Until a completion or a signal.
    Forever,
}

/// What a call of [`Ring::enter`] has completed.
#[derive(Debug, Default)]
pub struct Done {
    pub completions: Vec<Completion>,
    pub sent: Vec<Sent>,
}

/// Bytes to send.
struct Outgoing {
    key: u64,
    file: u32,
    bytes: Vec<u8>,
    /// The result of the completion; `None` as long as there is none, which means that all bytes are sent.
    result: Option<i32>,
}

/// Returns the error of a submission unless a later one may succeed.
fn unless_temporary(error: io::Error) -> io::Result<()> {
    match Errno::from_io_error(&error) {
        // AGAIN and BUSY: the kernel lacks memory for a request or for completions.
        Some(Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
        _ => Err(error),
    }
}

/// A ring.
pub struct Ring {
    // The ring is dropped before the memory that the kernel may write.
    ring: IoUring,
    buffers: Buffers,
    outgoing: Vec<Outgoing>,
    /// The descriptors of the ring's table of files, which the kernel reads when it changes the table; -1 for none.
    files: Box<[AtomicI32]>,
    /// True if a call failed while the kernel had not taken all submissions.
    is_broken: bool,
}

impl Ring {
    /// Makes a ring that is disabled, with room for this number of files in its table. The thread that calls
    /// [`Ring::enable`] is the only one that can use the ring.
    pub fn new(files: u32) -> io::Result<Ring> {
        // An error drops the ring first, because it is declared later.
        let buffers = Buffers::new();
        let ring = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS_MAX)
            .build(SUBMISSIONS_MAX)?;
        let params = ring.params();
        if !(params.is_feature_ext_arg()
            && params.is_feature_nodrop()
            && params.is_feature_skip_cqe_on_success())
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        ring.submitter().register_files_sparse(files)?;
        // SAFETY: this function and `Ring` drop the ring before the table, and the table has room for BUFFERS entries.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(buffers.table_address(), BUFFERS, 0, 0)
        }?;
        restrict(&ring)?;
        let files = (0..files).map(|_| AtomicI32::new(-1)).collect();
        Ok(Ring { ring, buffers, outgoing: Vec::new(), files, is_broken: false })
    }

    /// Enables the ring for the calling thread.
    pub fn enable(&mut self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()
    }

    /// Puts a file at an index of the table, or removes it.
    pub fn set_file(&mut self, index: u32, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let slot = &self.files[index as usize];
        slot.store(file.map_or(-1, |file| file.as_raw_fd()), Ordering::Relaxed);
        let update = opcode::FilesUpdate::new(slot.as_ptr(), 1).offset(index as i32).build();
        // The kernel reads the slot, which lives as long as the ring, when it takes the submission.
        self.push(ignored(update))
    }

    /// Receives from a socket of the table into provided buffers, until a completion without `more`.
    pub fn receive(&mut self, file: u32, key: u64) -> io::Result<()> {
        let request = opcode::RecvMulti::new(Fixed(file), 0).build();
        self.push(request.user_data(tagged(KEY_TAG, key)))
    }

    /// Reports once, or with `repeats` each time, that a file of the table meets one of the conditions.
    pub fn poll(&mut self, file: u32, conditions: u32, repeats: bool, key: u64) -> io::Result<()> {
        let request = opcode::PollAdd::new(Fixed(file), conditions);
        self.push(request.multi(repeats).build().user_data(tagged(KEY_TAG, key)))
    }

    /// Ends the request with this key. Its last completion follows, unless it already has.
    pub fn cancel(&mut self, key: u64) -> io::Result<()> {
        self.push(ignored(opcode::AsyncCancel::new(tagged(KEY_TAG, key)).build()))
    }

    /// Ends all requests for a file of the table.
    pub fn cancel_all(&mut self, file: u32) -> io::Result<()> {
        let all = CancelBuilder::fd(Fixed(file)).all();
        self.push(ignored(opcode::AsyncCancel2::new(all).build()))
    }

    /// Sends bytes to a socket of the table in the next call of [`Ring::enter`]. Returns the index of the send.
    pub fn send(&mut self, file: u32, key: u64, bytes: Vec<u8>) -> usize {
        self.outgoing.push(Outgoing { key, file, bytes, result: None });
        self.outgoing.len() - 1
    }

    /// Returns the bytes of a send that [`Ring::enter`] has not submitted, so that the caller may change them.
    pub fn bytes_to_send(&mut self, index: usize) -> &mut Vec<u8> {
        &mut self.outgoing[index].bytes
    }

    /// Submits everything, and waits for a completion. Appends what is completed. Every send is.
    pub fn enter(&mut self, wait: Wait, done: &mut Done) -> io::Result<()> {
        if self.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.buffers.publish();
        // SENT-AT-ONCE: after an error, the kernel may not have taken all submissions, so the ring keeps the bytes.
        self.is_broken = true;
        self.submit_sends()?;
        self.submit_and_wait(wait, done)?;
        self.is_broken = false;
        done.sent.extend(self.outgoing.drain(..).map(|Outgoing { key, bytes, result, .. }| {
            let taken = match result.map(count) {
                None => Ok(bytes.len()),
                Some(Err(Errno::AGAIN | Errno::INTR)) => Ok(0),
                Some(taken) => taken.map(|taken| taken as usize),
            };
            Sent { key, bytes, taken }
        }));
        Ok(())
    }

    /// Makes the system call until the kernel has taken all submissions, and all completions are taken from the queue.
    fn submit_and_wait(&mut self, mut wait: Wait, done: &mut Done) -> io::Result<()> {
        for _ in 0..ENTERS_MAX {
            self.submit(wait).map(|_| ()).or_else(unless_temporary)?;
            self.reap(done);
            let queue = self.ring.submission();
            if queue.is_empty() && !queue.cq_overflow() {
                return Ok(());
            }
            wait = Wait::No;
        }
        Err(io::ErrorKind::OutOfMemory.into())
    }

    /// Returns the bytes of a buffer.
    pub fn bytes(&self, received: &Received) -> &[u8] {
        self.buffers.bytes(received)
    }

    /// Gives a buffer back to the kernel.
    pub fn give_back(&mut self, received: Received) {
        self.buffers.give_back(received.id);
    }

    /// Adds the submissions of all sends.
    fn submit_sends(&mut self) -> io::Result<()> {
        const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        for index in 0..self.outgoing.len() {
            let Outgoing { file, bytes, .. } = &self.outgoing[index];
            if bytes.is_empty() {
                continue;
            }
            let send = opcode::Send::new(Fixed(*file), bytes.as_ptr(), bytes.len() as u32)
                .flags(FLAGS)
                .build()
                .flags(Flags::SKIP_SUCCESS)
                .user_data(tagged(SEND_TAG, index as u64));
            self.push(send)?;
        }
        Ok(())
    }

    /// Adds a submission. Submits the earlier ones if the queue is full.
    fn push(&mut self, entry: Entry) -> io::Result<()> {
        for _ in 0..ENTERS_MAX {
            // SAFETY: the only memory that a request refers to are a slot of `files`, which lives as long as the ring,
            // and the bytes of a send, which SENT-AT-ONCE keeps until the kernel has taken the request. The provided
            // buffers are registered, and live longer than the ring.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit().map(|_| ()).or_else(unless_temporary)?;
        }
        Err(io::ErrorKind::OutOfMemory.into())
    }

    /// Makes the system call.
    fn submit(&mut self, wait: Wait) -> io::Result<usize> {
        let (timespec, want);
        let args = match wait {
            Wait::No => return self.ring.submit(),
            Wait::For(timeout) => {
                want = u32::from(!timeout.is_zero());
                timespec = Timespec::from(timeout);
                SubmitArgs::new().timespec(&timespec)
            }
            Wait::Forever => {
                want = 1;
                SubmitArgs::new()
            }
        };
        let mut flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        // Otherwise the statistics of the system show the time of an idle worker as time of waiting for a disk.
        flags.set(EnterFlags::NO_IOWAIT, self.ring.params().is_feature_no_iowait());
        let pending = self.ring.submission().len() as u32;
        // SAFETY: the flags say that the argument is of this type, and its pointers live during the call. For the memory of
        // the submissions, see `push`.
        unsafe { self.ring.submitter().enter(pending, want, flags.bits(), Some(&args)) }
    }

    /// Takes all completions from the queue.
    fn reap(&mut self, done: &mut Done) {
        let Ring { ring, outgoing, .. } = self;
        for entry in ring.completion() {
            let key = entry.user_data() & !(u64::MAX << TAG_SHIFT);
            match entry.user_data() >> TAG_SHIFT {
                KEY_TAG => done.completions.push(completion(key, &entry)),
                SEND_TAG => outgoing[key as usize].result = Some(entry.result()),
                _ => {}
            }
        }
    }
}

fn completion(key: u64, entry: &cqueue::Entry) -> Completion {
    let result = count(entry.result());
    let len = result.map_or(0, |len| len as usize);
    // ONE-OWNER: the kernel gives a buffer away with this completion.
    let received = cqueue::buffer_select(entry.flags()).map(|id| Received { id, len });
    Completion { key, result, received, more: cqueue::more(entry.flags()) }
}

/// Converts the result of a completion.
fn count(result: i32) -> Result<u32, Errno> {
    u32::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}

fn tagged(tag: u64, value: u64) -> u64 {
    debug_assert!(value >> TAG_SHIFT == 0, "a key has 62 bits");
    tag << TAG_SHIFT | value
}

/// Makes a request whose success causes no completion, and whose failure does not matter.
fn ignored(entry: Entry) -> Entry {
    entry.flags(Flags::SKIP_SUCCESS).user_data(IGNORED_TAG << TAG_SHIFT)
}

/// Restricts a disabled ring to the operations and flags of this file.
fn restrict(ring: &IoUring) -> io::Result<()> {
    let flags = Flags::FIXED_FILE | Flags::BUFFER_SELECT | Flags::SKIP_SUCCESS;
    let operations = [
        opcode::RecvMulti::CODE,
        opcode::Send::CODE,
        opcode::PollAdd::CODE,
        opcode::AsyncCancel::CODE,
        opcode::FilesUpdate::CODE,
    ];
    let mut all: Vec<Restriction> = operations.map(Restriction::sqe_op).into();
    all.push(Restriction::sqe_flags_allowed(flags.bits()));
    ring.submitter().register_restrictions(&mut all)
}

/// The provided buffers of a ring, and the table through which the kernel gets them.
struct Buffers {
    /// The table: a queue of buffers, whose tail is in its first entry.
    table: NonNull<BufRingEntry>,
    /// The bytes of all buffers.
    bytes: NonNull<[u8]>,
    /// The tail of the table, which the kernel sees when it is published.
    tail: u16,
}

/// The memory of the table, which must begin at a page of the processor.
#[repr(C, align(4096))]
struct Table([u8; BUFFERS as usize * size_of::<BufRingEntry>()]);

impl Buffers {
    /// Makes buffers that all belong to the kernel.
    fn new() -> Buffers {
        let table = Box::leak(Box::new(Table([0; _])));
        // Another byte than 0 populates the pages now, so that clients neither wait for this nor seem to take the memory.
        let bytes = Box::leak(vec![u8::MAX; BUFFERS_SIZE_BYTES].into_boxed_slice());
        let mut buffers = Buffers {
            table: NonNull::from_mut(table).cast(),
            bytes: NonNull::from_mut(bytes),
            tail: 0,
        };
        for id in 0..BUFFERS {
            buffers.give_back(id);
        }
        buffers.publish();
        buffers
    }

    fn table_address(&self) -> u64 {
        self.table.as_ptr().expose_provenance() as u64
    }

    /// Returns the address of a buffer.
    fn address(&self, id: u16) -> NonNull<u8> {
        assert!(id < BUFFERS, "the kernel returns the id of a provided buffer, not {id}");
        // SAFETY: the range of the buffer is within `bytes`, because `id` is below BUFFERS.
        unsafe { self.bytes.cast::<u8>().add(usize::from(id) * BUFFER_STRIDE_BYTES) }
    }

    fn bytes(&self, received: &Received) -> &[u8] {
        assert!(received.len <= BUFFER_BYTES, "the kernel fills at most one buffer");
        let start = self.address(received.id).as_ptr();
        // SAFETY: ONE-OWNER: the buffer belongs to `received`, so nobody writes it while `received` is borrowed. Its bytes
        // are initialized, because `new` has filled the memory.
        unsafe { std::slice::from_raw_parts(start, received.len) }
    }

    /// Adds a buffer to the table. The kernel sees it when the tail is published.
    fn give_back(&mut self, id: u16) {
        let address = self.address(id).as_ptr().expose_provenance() as u64;
        let index = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: the index is below BUFFERS, the length of the table.
        let entry = unsafe { self.table.add(index) };
        // SAFETY: the entry is initialized and aligned, and the kernel does not read it: at most BUFFERS buffers exist, so
        // this entry is not between the head of the kernel and the published tail. The fields that are written do not
        // include the tail, which overlaps with the first entry and is only written as an atomic.
        let entry = unsafe { &mut *entry.as_ptr() };
        entry.set_addr(address);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Makes the added buffers visible to the kernel.
    fn publish(&self) {
        // SAFETY: the pointer is that of the first entry, which is initialized.
        let tail = unsafe { BufRingEntry::tail(self.table.as_ptr()) };
        // SAFETY: the tail is aligned and lives as long as the table, and it is only accessed as an atomic.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: `new` has leaked a box of this type. The ring, which is dropped earlier, was the only other user.
        drop(unsafe { Box::from_raw(self.table.cast::<Table>().as_ptr()) });
        // SAFETY: `new` has leaked a box of this slice, and the ring was the only other user.
        drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
    }
}

// SAFETY: the pointers are those of boxes that the value owns.
unsafe impl Send for Buffers {}

/// Checks that the kernel has what a ring needs. Returns the error of the failed system call, or an error of the kind
/// `Unsupported` if requests behave otherwise.
pub fn check() -> io::Result<()> {
    let (ours, mut theirs) = UnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    let mut ring = Ring::new(1)?;
    ring.enable()?;
    ring.set_file(0, Some(ours.as_fd()))?;
    ring.receive(0, 1)?;
    ring.send(0, 2, vec![b'a'; 100]);
    // A socket that does not block takes only a part of this.
    theirs.write_all(b"input")?;
    let mut done = Done::default();
    ring.enter(Wait::For(Duration::ZERO), &mut done)?;
    let [Completion { key: 1, result: Ok(5), received: Some(received), more: true }] =
        &done.completions[..]
    else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let is_whole =
        ring.bytes(received) == b"input" && matches!(done.sent[..], [Sent { taken: Ok(100), .. }]);
    let mut sent_bytes = 100;
    loop {
        done = Done::default();
        ring.send(0, 2, vec![b'a'; 100_000]);
        ring.enter(Wait::No, &mut done)?;
        match done.sent[..] {
            [Sent { taken: Ok(100_000), .. }] => sent_bytes += 100_000,
            [Sent { taken: Ok(part), .. }] => {
                sent_bytes += part;
                break;
            }
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
    }
    let mut read_bytes = 0;
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count) = theirs.read(&mut buffer) {
        read_bytes += count;
    }
    if is_whole && read_bytes == sent_bytes {
        Ok(())
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
#[path = "uring_tests.rs"]
mod tests;
