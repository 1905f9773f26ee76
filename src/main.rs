//! The `slabwise` command: sends the first argument on.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

const COMMANDS: &str = "\
slabwise [options]           serves, with memcached's options; --help lists them
slabwise classes [options]   shows the chunk sizes that those options give
slabwise classes --from-server HOST:PORT | --from-histogram FILE
                             advises a memcached on chunk sizes; classes --help
slabwise replay [options]    measures a server with a workload; replay --help
slabwise lab list|run ...    reproduces experiments; lab --help
slabwise demo                shows how it tunes itself, beside memcached
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
            match args.iter().any(|argument| slabwise_advisor::is_ours(argument)) {
                true => slabwise_advisor::main(args),
                false => slabwise_server::print_classes(args),
            }
        }
        "replay" => slabwise_replay::main(args.skip(1).collect()),
        "lab" | "demo" => slabwise_lab::main(&command, args.skip(1).collect()),
        "advise" => refuse("advice on chunk sizes is `slabwise classes --from-server HOST:PORT`"),
        "help" => {
            print!("{COMMANDS}");
            ExitCode::SUCCESS
        }
        unknown => refuse(&format!(
            "'{unknown}' is no command: say classes, replay, lab or demo, or options to serve (--help)"
        )),
    }
}

fn refuse(reason: &str) -> ExitCode {
    eprintln!("slabwise: {reason}");
    ExitCode::from(64)
}
