//! Code that the subcommands of `slabwise` share: it parses arguments, prints the result, and prints an error as one
//! line.

use clap::{CommandFactory, Parser};
use clap_mangen::Man;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

/// Parses the arguments that follow the command's name. If the arguments are invalid, prints the error and returns
/// `failure`, the exit code for the process. If the arguments request help or a manual page, prints the requested text
/// and returns the exit code for success.
pub fn parse<A: Parser>(
    command: &str,
    args: Vec<OsString>,
    failure: ExitCode,
) -> Result<A, ExitCode> {
    if print_man_page::<A>(&args) {
        return Err(ExitCode::SUCCESS);
    }
    try_parse(command, args).map_err(|error| {
        // An error of the write is ignored, because the reader of the output may have closed the pipe.
        let _ = error.print();
        if error.use_stderr() { failure } else { ExitCode::SUCCESS }
    })
}

/// Parses the arguments, calls `run`, and prints the text that `run` returns. Prints an error as one line on stderr.
/// `what` is the noun for the text, such as "report", in the error "cannot print the report". Returns the exit code.
pub fn answer<A: Parser>(
    command: &str,
    what: &str,
    args: Vec<OsString>,
    run: impl FnOnce(&A) -> Result<String, String>,
) -> ExitCode {
    if print_man_page::<A>(&args) {
        return ExitCode::SUCCESS;
    }
    let result = match try_parse(command, args) {
        Ok(args) => run(&args),
        Err(error) if error.use_stderr() => Err(first_paragraph(command, &error.to_string())),
        Err(help) => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    let print = |text: String| std::io::stdout().write_all(text.as_bytes());
    let printed = result
        .and_then(|text| print(text).map_err(|error| format!("cannot print the {what}: {error}")));
    finish(command, printed)
}

/// Returns the exit code for the result of a command. If the result is an error, prints it as one line on stderr.
pub fn finish(command: &str, result: Result<(), impl Display>) -> ExitCode {
    let Err(reason) = result else { return ExitCode::SUCCESS };
    eprintln!("{command}: {reason}");
    ExitCode::FAILURE
}

/// The argument that requests a manual page. It must be the last argument.
pub const MAN_PAGE: &str = "--help=man";

/// If the last argument is [`MAN_PAGE`], prints the manual page of the command, or of the subcommand that the other
/// arguments name, and returns true. Otherwise returns false.
fn print_man_page<A: CommandFactory>(args: &[OsString]) -> bool {
    let Some((_, names)) = args.split_last().filter(|(last, _)| *last == MAN_PAGE) else {
        return false;
    };
    // An error of the write is ignored, because the reader of the output may have closed the pipe.
    let _ = std::io::stdout().write_all(&man_page(A::command(), names));
    true
}

fn man_page(command: clap::Command, names: &[OsString]) -> Vec<u8> {
    let page_name = command.get_name().replace(' ', "-");
    let mut command = command.display_name(page_name).disable_help_subcommand(true);
    command.build();
    let selected = names
        .iter()
        .fold(&command, |command, name| command.find_subcommand(name).unwrap_or(command))
        .clone();
    let mut page = Vec::new();
    let source = concat!("slabwise ", env!("CARGO_PKG_VERSION"));
    // In roff two quotation marks are an empty argument, so the page has no date.
    let man = Man::new(selected).date("\"\"").source(source).manual("User Commands");
    man.render(&mut page).expect("a write into a vector succeeds");
    page
}

fn try_parse<A: Parser>(command: &str, args: Vec<OsString>) -> Result<A, clap::Error> {
    A::try_parse_from(std::iter::once(command.into()).chain(args))
}

/// Parses a time in seconds within these limits. The error names the limits.
pub fn seconds(text: &str, limits: RangeInclusive<f64>) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if limits.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("give {} to {} seconds", limits.start(), limits.end())),
    }
}

/// Joins the lines of clap's error message up to the first empty line, and appends a reference to the command's help.
pub fn first_paragraph(command: &str, error: &str) -> String {
    let lines = error.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    let text = lines.collect::<Vec<_>>().join(" ");
    format!("{}; see {command} --help", text.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use super::man_page;
    use clap::{Parser, Subcommand};

    /// Test a page.
    #[derive(Parser)]
    #[command(name = "slabwise test")]
    struct Args {
        #[command(subcommand)]
        _command: Option<Command>,
    }

    #[derive(Subcommand)]
    enum Command {
        /// Run a test
        Run {
            /// Number of runs
            #[arg(long)]
            _runs: u32,
        },
    }

    fn man_page_text(names: &[&str]) -> String {
        let names: Vec<_> = names.iter().map(Into::into).collect();
        let command = <Args as clap::CommandFactory>::command();
        String::from_utf8(man_page(command, &names)).expect("the manual page is UTF-8")
    }

    #[test]
    fn a_subcommand_has_its_own_manual_page() {
        let page_of_command = man_page_text(&[]);
        assert!(page_of_command.contains("slabwise\\-test \\- Test a page"), "{page_of_command}");
        assert!(page_of_command.contains("slabwise\\-test\\-run(1)"), "{page_of_command}");
        let page_of_run = man_page_text(&["run"]);
        assert!(page_of_run.contains("slabwise\\-test\\-run \\- Run a test"), "{page_of_run}");
        assert!(page_of_run.contains("Number of runs"), "{page_of_run}");
    }
}
