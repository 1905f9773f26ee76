//! Faults of the server process: signals, restarts, limits of descriptors and connections.

use super::{FaultError, Scene};
use crate::channel::Channel;
use crate::checker::history::Span;
use crate::server::Host;
use crate::world::Endpoint;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use slabwise_client::Connection;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::process::ExitStatus;
use std::sync::MutexGuard;
use std::time::Duration;

/// The number of connections that the server accepts (`-c`).
pub const CONNECTIONS_MAX: usize = 1024;
/// The size of a block in the metadata of files.
const BLOCK_SIZE_BYTES: u64 = 512;
/// The time for which a stalled clock may still have an effect after its end.
const STALL_ECHO: Duration = Duration::from_millis(1000);

fn lock<'s>(scene: &Scene<'s>) -> MutexGuard<'s, Host> {
    scene.host.lock().expect("no thread panics with this lock")
}

/// Stops the process for a short time.
pub(super) fn stop_for_a_while(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let millis = 20 + scene.random.below(1500);
    let mut host = lock(scene);
    let _stall = scene.world.stall();
    host.process().signal(Signal::STOP)?;
    scene.wait(Duration::from_millis(millis));
    host.process().signal(Signal::CONT)?;
    drop(host);
    scene.count();
    scene.wait(STALL_ECHO);
    Ok(())
}

/// Kills the process. The next one must start with an empty cache.
pub(super) fn kill(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    restart(scene, Signal::KILL)
}

/// Ends the process by SIGTERM. The next one must start with an empty cache.
pub(super) fn terminate(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    restart(scene, Signal::TERM)
}

/// Ends the process by SIGUSR1. With a memory file, the next one may have all items.
pub(super) fn restart_warm(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    restart(scene, Signal::USR1)
}

/// Ends the process by a signal, and starts another one.
fn restart(scene: &mut Scene<'_>, signal: Signal) -> Result<(), FaultError> {
    let world = scene.world;
    let mut host = lock(scene);
    let _restart = world.restarts.begin();
    let status = end_process(scene, &mut host, signal)?;
    if signal != Signal::KILL && !status.success() {
        return Err(FaultError::Wrong(format!("after {signal:?} the server ended with {status}")));
    }
    let items = start_process(scene, &mut host)?;
    if items > 0 && signal != Signal::USR1 {
        return Err(FaultError::Wrong(format!(
            "after {signal:?} the server has started with {items} items, not with an empty cache"
        )));
    }
    if signal != Signal::USR1 || items > 0 {
        scene.count();
    }
    world.set_endpoint(host.endpoint());
    Ok(())
}

/// Ends the process by a signal. Returns how it has ended.
fn end_process(
    scene: &Scene<'_>,
    host: &mut Host,
    signal: Signal,
) -> Result<ExitStatus, FaultError> {
    let world = scene.world;
    world.set_endpoint(Endpoint::default());
    host.process().signal(signal)?;
    let status = host.process().wait()?;
    if let Some(report) = host.sanitizer_report() {
        return Err(FaultError::Wrong(report));
    }
    world.checker.stopped(world.end());
    Ok(status)
}

/// Starts another process after the last one has ended. Returns the number of its items.
fn start_process(scene: &Scene<'_>, host: &mut Host) -> Result<u64, FaultError> {
    let world = scene.world;
    let begin = world.stamps.take();
    host.start_again().map_err(|error| FaultError::Wrong(error.to_string()))?;
    let items = host.statistic("curr_items");
    if items == 0 {
        world.forget_clock_jumps();
        world.checker.all_absent(Span { begin, end: world.stamps.take() });
    }
    Ok(items)
}

/// Fills the file system of the memory file, while the server works and while it restarts. A graceful stop may fail,
/// and the next process may then start with an empty cache. The start must be refused without a memory file, and may be
/// refused if a lower memory limit has left holes in the file.
pub(super) fn fill_file_system(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let millis = scene.random.below(1000);
    let removes_file = scene.random.below(2) == 0;
    let world = scene.world;
    let mut host = lock(scene);
    let _full = world.full_file_systems.begin();
    host.memory_directory.fill()?;
    scene.wait(Duration::from_millis(millis));
    let _restart = world.restarts.begin();
    let status = end_process(scene, &mut host, Signal::USR1)?;
    let stderr = host.last_stderr();
    let is_reported = status.code() == Some(1) && stderr.contains("cannot write");
    if !status.success() && !is_reported {
        let problem = format!("on a full file system the server ended with {status}: {stderr}");
        return Err(FaultError::Wrong(problem));
    }
    if removes_file {
        fs::remove_file(host.memory_directory.file())?;
        host.memory_directory.fill()?;
        let text = match host.start_again() {
            Ok(()) => "it has started".to_owned(),
            Err(error) => error.to_string(),
        };
        if !needs_free_space(&text) {
            let problem = format!("a start on a full file system must be refused, but {text}");
            return Err(FaultError::Wrong(problem));
        }
        host.memory_directory.remove_filler()?;
        start_process(scene, &mut host)?;
    } else {
        let file = fs::metadata(host.memory_directory.file())?;
        let has_holes = file.blocks() * BLOCK_SIZE_BYTES < file.len();
        let started = start_process(scene, &mut host);
        host.memory_directory.remove_filler()?;
        match started {
            Err(FaultError::Wrong(text)) if has_holes && needs_free_space(&text) => {
                start_process(scene, &mut host)?;
            }
            started => started.map(drop)?,
        }
    }
    scene.count();
    world.set_endpoint(host.endpoint());
    Ok(())
}

/// True if a message of the server names a memory file for which its file system has too little free space.
pub(super) fn needs_free_space(message: &str) -> bool {
    message.contains("more bytes, and its file system has")
}

/// Opens connections until the server has reached its limit, and closes them.
pub(super) fn exhaust_connections(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let _host = lock(scene);
    let _refusals = scene.world.refusals.begin();
    let mut console = scene.console()?;
    let refusals = refusals(&mut console)?;
    let address = scene.address()?;
    let mut channels = Vec::new();
    while channels.len() < CONNECTIONS_MAX + 20 && !scene.world.gate.has_ended() {
        // If the server does not accept connections, connecting fails when the kernel's queue is full.
        match Channel::connect_within(address, Duration::from_millis(100)) {
            Ok(channel) => channels.push(channel),
            Err(_) => break,
        }
    }
    scene.wait(Duration::from_millis(200));
    if self::refusals(&mut console)? > refusals {
        scene.count();
    }
    drop(channels);
    await_service(scene)
}

/// Returns how often the server has refused connections, or has stopped to accept them.
fn refusals(console: &mut Connection) -> Result<u64, FaultError> {
    let rows = console.ask_rows("stats")?;
    let number = |name| rows.get(name).and_then(|row| row.value.parse::<u64>().ok()).unwrap_or(0);
    Ok(number("rejected_connections") + number("listen_disabled_num"))
}

/// Lowers the limit of descriptors of the process, opens more connections than it has descriptors, and restores the
/// limit.
pub(super) fn exhaust_descriptors(scene: &mut Scene<'_>) -> Result<(), FaultError> {
    let mut host = lock(scene);
    let _refusals = scene.world.refusals.begin();
    let id = i32::try_from(host.process().id()).ok().and_then(Pid::from_raw);
    let address = scene.address()?;
    let used = host.descriptors() as u64;
    // Only a privileged process can raise a hard limit, so it is kept.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let lowered = Rlimit { current: Some(used + 2), maximum };
    let old = prlimit(id, Resource::Nofile, lowered).map_err(io::Error::from)?;
    let connect = |_| Channel::connect_within(address, Duration::from_millis(20)).ok();
    let channels: Vec<_> = (0..20).filter_map(connect).collect();
    scene.wait(Duration::from_millis(300));
    if host.descriptors() as u64 >= used + 2 {
        scene.count();
    }
    prlimit(id, Resource::Nofile, old).map_err(io::Error::from)?;
    drop(channels);
    await_service(scene)
}

/// Waits until the server serves a new connection.
fn await_service(scene: &Scene<'_>) -> Result<(), FaultError> {
    let deadline = scene.world.clock.nanos() + scene.world.reply_timeout.as_nanos() as u64;
    loop {
        let reply = scene.console().and_then(|mut console| Ok(console.ask_line("version")?));
        match reply {
            Ok(reply) if reply.starts_with("VERSION ") => return Ok(()),
            _ if scene.world.clock.nanos() < deadline => {
                scene.world.pause(Duration::from_millis(5))
            }
            other => {
                return Err(FaultError::Wrong(format!(
                    "the server does not serve a new connection after the fault: {other:?}"
                )));
            }
        }
    }
}
