//! A system on which some system calls fail: a filter, which a server inherits from the thread that starts it.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use slabwise_client::process::{ServerCommand, wait};
use std::path::Path;

/// Calls `start` on a thread where these system calls fail with this error.
pub fn with_refused_calls<T: Send>(
    calls: &[libc::c_long],
    error: libc::c_int,
    start: impl FnOnce() -> T + Send,
) -> T {
    let rules: BTreeMap<i64, _> = calls.iter().map(|&call| (call, vec![])).collect();
    let refused = SeccompAction::Errno(error as u32);
    let architecture = std::env::consts::ARCH.try_into().expect("seccompiler knows this machine");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture);
    let program: BpfProgram = filter.and_then(TryInto::try_into).expect("the rules are valid");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            apply_filter(&program).expect("the kernel filters system calls");
            start()
        });
        thread.join().expect("the server can be started")
    })
}

/// Starts a server that must refuse to start because these system calls fail with this error. `port_file` is a path for the
/// file with its ports.
pub fn assert_refuses_to_start(
    command: &ServerCommand,
    port_file: &Path,
    calls: &[libc::c_long],
    error: libc::c_int,
) {
    let child = with_refused_calls(calls, error, || command.spawn(port_file));
    let mut child = child.expect("the process can be started");
    assert!(!wait(&mut child).expect("the server ends before the deadline").success());
}
