//! The `slabwise` command: sends the first argument on.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

const COMMANDS: &str = "\
slabwise [options]           serves, with memcached's options; --help lists them
slabwise classes [options]   shows the chunk sizes that those options give
slabwise replay [options]    measures a server with a workload; replay --help
slabwise lab list|run ...    reproduces experiments; lab --help
slabwise advise [options]    advises a stock memcached (comes later)
";

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    let command = match args.peek().and_then(|first| first.to_str()) {
        Some(first) if !first.starts_with('-') && !first.is_empty() => first.to_owned(),
        _ => return slabwise_server::main(args),
    };
    match command.as_str() {
        "classes" => slabwise_server::print_classes(args.skip(1)),
        "replay" | "lab" => slabwise_lab::main(&command, args.skip(1).collect::<Vec<OsString>>()),
        "advise" => refuse("advise comes later: until then, see `stats slabs` and `stats items`"),
        "help" => {
            print!("{COMMANDS}");
            ExitCode::SUCCESS
        }
        unknown => refuse(&format!(
            "'{unknown}' is no command: say classes, replay, lab or advise, or options to serve \
             (--help)"
        )),
    }
}

fn refuse(reason: &str) -> ExitCode {
    eprintln!("slabwise: {reason}");
    ExitCode::from(64)
}
