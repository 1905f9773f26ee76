//! A supervisor: a process that runs a server, and kills the server when the process that started the supervisor ends.
//!
//! ```text
//!   starter --stdin of the supervisor, a pipe--> supervisor: run() --starts, kills--> server
//! ```
//!
//! The starter never writes to the pipe. The kernel closes the pipe when the starter ends, even after SIGKILL, which no
//! process can handle. The supervisor then reads the end of the pipe.
//!
//! `PR_SET_PDEATHSIG` needs no further process, but it needs unsafe code between fork and exec. It also kills the server
//! when the thread that started the server ends, although other threads of the process still run.
//!
//! [`ServerCommand::supervised_by`](crate::process::ServerCommand::supervised_by) starts a server in this way.

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;

/// Starts the server, and returns when it has exited. Kills the server when the stdin of this process ends.
pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
    let mut server = command.stdin(Stdio::null()).spawn()?;
    let (server_ended, ended) = channel();
    let starter_ended = server_ended.clone();
    let id = Pid::from_child(&server);
    thread::spawn(move || {
        // NOWAIT keeps the id of the server from being used for another process before `kill` below.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(id), options));
        let _ = server_ended.send(());
    });
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = starter_ended.send(());
    });
    // This fails only if both threads have ended. The server must end in this case, too.
    let _ = ended.recv();
    server.kill()?;
    server.wait()
}
