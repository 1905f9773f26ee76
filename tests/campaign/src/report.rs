//! Lines of progress, and the table at the end.

use crate::counts::{Counts, OUTCOMES};
use crate::operation::Verb;
use crate::protocol::Protocol;
use crate::server::console;
use crate::world::World;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Prints a line of progress.
pub fn progress(world: &World, resident_bytes: u64) {
    let counts = &world.counts;
    let (hits, misses) = counts.hits_and_misses();
    let seconds = world.clock.nanos() as f64 / 1e9;
    let refused: u64 = counts.refusals().values().sum();
    println!(
        "{seconds:6.0} s  {} requests ({:.0}/s)  {hits} hits  {misses} misses  {refused} refused  \
         RSS {} MiB  {} versions kept",
        counts.total(),
        counts.total() as f64 / seconds,
        resident_bytes >> 20,
        world.checker.versions(),
    );
}

/// Prints the counts of requests and faults.
pub fn print(counts: &Counts) {
    for protocol in Protocol::ALL {
        print!("{} {}  ", protocol.name(), counts.protocol(protocol));
    }
    println!();
    for verb in Verb::ALL {
        print!("{:<8}", verb.name());
        for (name, count) in OUTCOMES.iter().zip(counts.outcomes(verb)) {
            if count > 0 {
                print!("  {name} {count}");
            }
        }
        println!();
    }
    for (text, count) in counts.refusals() {
        println!("refused with {text:?}: {count}");
    }
    println!(
        "too late to judge {}, connections ended by faults {}, closed as slow readers {}",
        counts.too_late.load(Ordering::Relaxed),
        counts.closed.load(Ordering::Relaxed),
        counts.slow_readers.load(Ordering::Relaxed),
    );
    println!(
        "small values {}, {} of them refused",
        counts.small_values.load(Ordering::Relaxed),
        counts.small_refused.load(Ordering::Relaxed)
    );
    println!("faults and other events:");
    for (name, count) in counts.faults() {
        println!("  {name}: {count}");
    }
}

/// Prints how server and kernel see the connection of a client that waits in vain.
pub fn print_connection(world: &World, client: SocketAddr) {
    if let Some(address) = world.endpoint().address {
        let rows = console(address, Duration::from_secs(5)).and_then(|mut it| {
            Ok([it.ask_rows("stats conns")?.0, it.ask_rows("stats memory")?.0].concat())
        });
        match rows {
            Ok(rows) => rows.iter().for_each(|row| println!("  {} {}", row.name, row.value)),
            Err(error) => println!("  the server does not answer: {error}"),
        }
    }
    let filter = format!("( sport = :{0} or dport = :{0} )", client.port());
    match Command::new("ss").args(["-tinom", &filter]).output() {
        Ok(output) => println!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => println!("  the kernel's view is not available: ss: {error}"),
    }
    println!("{}", fs::read_to_string("/proc/net/sockstat").unwrap_or_default());
}

/// Prints the statistics of the server at the time of a failure.
pub fn dump(world: &World) {
    let Some(address) = world.endpoint().address else { return };
    let Ok(mut console) = console(address, Duration::from_secs(5)) else {
        return println!("the server does not accept a connection");
    };
    for command in ["stats", "stats memory", "stats conns"] {
        println!("{command}:");
        match console.ask_rows(command) {
            Ok(rows) => rows.0.iter().for_each(|row| println!("  {} {}", row.name, row.value)),
            Err(error) => println!("  {error}"),
        }
    }
}
