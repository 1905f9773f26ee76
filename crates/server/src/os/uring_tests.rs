//! Tests of rings that need their inner parts.

use super::{Done, Ring, Wait, check};
use io_uring::opcode;
use io_uring::types::Fixed;
use rustix::io::Errno;
use std::time::Duration;

#[test]
fn a_ring_refuses_operations_that_the_server_does_not_use() {
    if let Err(error) = check() {
        return eprintln!("not tested: the kernel refuses io_uring: {error}");
    }
    let mut ring = Ring::new(1).expect("a ring can be made");
    ring.enable().expect("the ring can be enabled");
    let mut buffer = [0; 16];
    let entries = [
        opcode::Read::new(Fixed(0), buffer.as_mut_ptr(), 16).build(),
        opcode::OpenAt::new(io_uring::types::Fd(-1), c"/etc/passwd".as_ptr()).build(),
        opcode::Socket::new(2, 1, 0).build(),
        opcode::Nop::new().build(),
    ];
    for (key, entry) in entries.into_iter().enumerate() {
        ring.push(entry.user_data(key as u64)).expect("the queue has room");
        let mut done = Done::default();
        ring.enter(Wait::For(Duration::ZERO), &mut done).expect("the kernel takes the request");
        let results: Vec<_> = done.completions.iter().map(|it| (it.key, it.result)).collect();
        assert_eq!(results, [(key as u64, Err(Errno::ACCESS))]);
    }
    assert!(
        ring.ring
            .submitter()
            .register_files_sparse(1)
            .is_err_and(|error| { Errno::from_io_error(&error) == Some(Errno::ACCESS) })
    );
}
