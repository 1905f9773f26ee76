//! What commands of `slabwise` have in common: arguments, the text that they answer with, and failures in one line.

use clap::Parser;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Reads the arguments after a command's name. Help, and what is wrong with them, is printed by clap: then there is only
/// an exit code left, `failure` for wrong arguments.
pub fn parse<A: Parser>(
    command: &str,
    args: Vec<OsString>,
    failure: ExitCode,
) -> Result<A, ExitCode> {
    parsed(command, args).map_err(|error| {
        // A reader that has left wants no more help.
        let _ = error.print();
        if error.use_stderr() { failure } else { ExitCode::SUCCESS }
    })
}

/// Runs a command that prints one text, called `what`. Whatever is wrong is one line on stderr.
pub fn answer<A: Parser>(
    command: &str,
    what: &str,
    args: Vec<OsString>,
    run: impl FnOnce(&A) -> Result<String, String>,
) -> ExitCode {
    let answered = match parsed(command, args) {
        Ok(args) => run(&args),
        Err(error) if error.use_stderr() => Err(first_paragraph(command, &error.to_string())),
        Err(help) => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    let print = |text: String| std::io::stdout().write_all(text.as_bytes());
    let printed = answered.and_then(|text| {
        print(text).map_err(|error| format!("the {what} cannot be printed: {error}"))
    });
    finish(command, printed)
}

/// The exit code of what a command came to; a failure is one line on stderr.
pub fn finish(command: &str, done: Result<(), impl Display>) -> ExitCode {
    let Err(reason) = done else { return ExitCode::SUCCESS };
    eprintln!("{command}: {reason}");
    ExitCode::FAILURE
}

fn parsed<A: Parser>(command: &str, args: Vec<OsString>) -> Result<A, clap::Error> {
    A::try_parse_from(std::iter::once(command.into()).chain(args))
}

/// An argument error in one line.
pub fn first_paragraph(command: &str, error: &str) -> String {
    let lines = error.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    let text = lines.collect::<Vec<_>>().join(" ");
    format!("{}; see {command} --help", text.trim_start_matches("error: "))
}
