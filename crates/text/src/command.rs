//! Common code of the commands of `slabwise`: parses arguments, prints the result and reports errors in one line.

use clap::{CommandFactory, Parser};
use clap_mangen::Man;
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
    if print_man_page::<A>(&args) {
        return Err(ExitCode::SUCCESS);
    }
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
    if print_man_page::<A>(&args) {
        return ExitCode::SUCCESS;
    }
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

/// The last argument that requests a manual page.
pub const MAN_PAGE: &str = "--help=man";

/// Prints the manual page of a command or its subcommand if the last argument is [`MAN_PAGE`]; returns whether it is.
fn print_man_page<A: CommandFactory>(args: &[OsString]) -> bool {
    let Some((_, names)) = args.split_last().filter(|(last, _)| *last == MAN_PAGE) else {
        return false;
    };
    // The other end of the pipe may be closed.
    let _ = std::io::stdout().write_all(&man_page(A::command(), names));
    true
}

fn man_page(command: clap::Command, names: &[OsString]) -> Vec<u8> {
    let page_name = command.get_name().replace(' ', "-");
    let mut command = command.display_name(page_name).disable_help_subcommand(true);
    command.build();
    let named = names
        .iter()
        .fold(&command, |command, name| command.find_subcommand(name).unwrap_or(command))
        .clone();
    let mut page = Vec::new();
    let source = concat!("slabwise ", env!("CARGO_PKG_VERSION"));
    // Two quotation marks are an empty date.
    let man = Man::new(named).date("\"\"").source(source).manual("User Commands");
    man.render(&mut page).expect("writing to memory succeeds");
    page
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

    fn page(names: &[&str]) -> String {
        let names: Vec<_> = names.iter().map(Into::into).collect();
        let command = <Args as clap::CommandFactory>::command();
        String::from_utf8(man_page(command, &names)).expect("a page is UTF-8")
    }

    #[test]
    fn a_subcommand_has_its_own_manual_page() {
        let page_of_command = page(&[]);
        assert!(page_of_command.contains("slabwise\\-test \\- Test a page"), "{page_of_command}");
        assert!(page_of_command.contains("slabwise\\-test\\-run(1)"), "{page_of_command}");
        let page_of_run = page(&["run"]);
        assert!(page_of_run.contains("slabwise\\-test\\-run \\- Run a test"), "{page_of_run}");
        assert!(page_of_run.contains("Number of runs"), "{page_of_run}");
    }
}
