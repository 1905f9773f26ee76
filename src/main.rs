//! The program `slabwise`: runs the subcommand that the first argument names, or the server if the first argument is an
//! option or is missing.
//!
//! - Crates of the subcommands: [server](slabwise_server), [replay](slabwise_replay), [lab](slabwise_lab),
//!   [advisor](slabwise_advisor), which reports what a server would gain from its memory, [top](slabwise_top), a terminal view of servers, and
//!   [steer](slabwise_steer), which moves the pages of a running memcached.
//! - Crates of the cache: [engine](../slabwise_engine/index.html), [policies](../slabwise_policy/index.html),
//!   [profiler](../slabwise_profile/index.html), [tuner](../slabwise_tuner/index.html).
//! - Crates that others share: [base types](../slabwise_base/index.html), [protocol](../slabwise_protocol/index.html),
//!   [client](../slabwise_client/index.html), [text](../slabwise_text/index.html).
//!
//! `docs/ARCHITECTURE.md` describes how these crates work together, `docs/protocol.md` describes the wire protocol, and
//! `docs/glossary.md` defines the terms.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

/// The text that `slabwise help` prints.
const COMMANDS: &str = "\
slabwise [options]           start the server; it accepts memcached's options (--help)
slabwise upgrade [options]   take over from the running server with these options and
                             -o upgradable, without a restart
slabwise classes [options]   print the chunk sizes that a server with these options uses
slabwise classes --from-server HOST:PORT | --from-histogram FILE
                             recommend chunk sizes for a running memcached, or for a
                             histogram of item sizes (classes --help)
slabwise replay [options]    send a workload to a server and measure its replies (replay --help)
slabwise top HOST[:PORT]...  show servers in the terminal: requests, hit ratios, memory and
                             classes of slabwise and memcached (top --help)
slabwise advise --server HOST[:PORT]...
                             watch memcached or slabwise servers, and report what they
                             would gain from their memory, and how (advise --help)
slabwise steer --server HOST[:PORT]
                             move the pages of a running memcached to the classes where
                             they save most misses (steer --help)
slabwise lab list|run ...    list or run experiments from publications (lab --help)
slabwise memory [options]    print the memory limit for a container of a server with these
                             options (memory --help)
slabwise probe ADDRESS       check whether a server is ready (probe --help)
slabwise demo                compare slabwise with memcached in the terminal (demo --help)
";

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    let command = match args.peek().and_then(|first| first.to_str()) {
        Some(first) if !first.starts_with('-') && !first.is_empty() => first.to_owned(),
        _ => return slabwise_server::main(args),
    };
    match command.as_str() {
        "classes" => {
            let args: Vec<OsString> = args.skip(1).collect();
            match args.iter().any(|argument| slabwise_advisor::chunk_sizes::is_ours(argument)) {
                true => slabwise_advisor::chunk_sizes::main(args),
                false => slabwise_server::print_classes(args),
            }
        }
        "replay" => slabwise_replay::main(args.skip(1).collect()),
        "top" => slabwise_top::main(args.skip(1).collect()),
        "steer" => slabwise_steer::main(args.skip(1).collect()),
        "lab" | "demo" => slabwise_lab::main(&command, args.skip(1).collect()),
        "advise" => slabwise_advisor::main(args.skip(1).collect()),
        "upgrade" => slabwise_server::upgrade(args.skip(1)),
        "memory" => slabwise_server::print_memory(args.skip(1)),
        "probe" => slabwise_server::probe::main(args.skip(1)),
        "help" => {
            print!("{COMMANDS}");
            ExitCode::SUCCESS
        }
        unknown => usage_error(&format!(
            "unknown command '{unknown}': expected upgrade, classes, replay, top, advise, steer, lab, memory, probe or demo (see --help)"
        )),
    }
}

fn usage_error(reason: &str) -> ExitCode {
    eprintln!("slabwise: {reason}");
    ExitCode::from(64)
}
