//! Common code of the commands of `slabwise`: parses arguments, prints the result and reports errors in one line.

use clap::Parser;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Parses the arguments after a command's name. On an error, or if help is requested, prints clap's text and returns
/// the exit code; `failure` is the code of an error.
pub fn parse<A: Parser>(
    command: &str,
    args: Vec<OsString>,
    failure: ExitCode,
) -> Result<A, ExitCode> {
    parsed(command, args).map_err(|error| {
        // The other end of the pipe may be closed.
        let _ = error.print();
        if error.use_stderr() { failure } else { ExitCode::SUCCESS }
    })
}

/// Runs a command that prints one text, which `what` names in errors. An error is one line on stderr.
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
    let printed = answered
        .and_then(|text| print(text).map_err(|error| format!("cannot print the {what}: {error}")));
    finish(command, printed)
}

/// Returns the exit code of a command. Prints an error as one line on stderr.
pub fn finish(command: &str, done: Result<(), impl Display>) -> ExitCode {
    let Err(reason) = done else { return ExitCode::SUCCESS };
    eprintln!("{command}: {reason}");
    ExitCode::FAILURE
}

fn parsed<A: Parser>(command: &str, args: Vec<OsString>) -> Result<A, clap::Error> {
    A::try_parse_from(std::iter::once(command.into()).chain(args))
}

/// Formats an argument error as one line.
pub fn first_paragraph(command: &str, error: &str) -> String {
    let lines = error.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    let text = lines.collect::<Vec<_>>().join(" ");
    format!("{}; see {command} --help", text.trim_start_matches("error: "))
}
