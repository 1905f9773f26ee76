//! Runs `slabwise classes`, and reads its report.

use std::process::{Command, Output};

/// Runs `slabwise classes` with these arguments, and waits for its exit.
pub fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slabwise"));
    command.arg("classes").args(args).output().expect("the command slabwise can be started")
}

/// The report of a successful run.
pub struct Advice {
    text: String,
}

impl Advice {
    /// Runs `slabwise classes` with these arguments. Panics unless it succeeds without warnings.
    pub fn of(args: &[&str]) -> Advice {
        let output = run(args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{args:?}: {errors}");
        Advice { text }
    }

    /// Returns the numbers for the current and for the advised chunk sizes, in the row of totals that starts with
    /// `name`.
    pub fn total(&self, name: &str) -> (u64, u64) {
        let row = self.text.lines().find(|line| line.starts_with(name));
        let row = row.unwrap_or_else(|| panic!("the report has no row {name}: {}", self.text));
        let number = |word: &str| {
            word.replace(',', "").parse::<u64>().expect("the last two columns of a row are numbers")
        };
        let numbers: Vec<&str> = row.split_whitespace().rev().take(2).collect();
        (number(numbers[1]), number(numbers[0]))
    }

    /// Returns the argument for `-o` from the last line of the report.
    pub fn option(&self) -> &str {
        let last = self.text.lines().last().and_then(|line| line.strip_prefix("-o "));
        last.unwrap_or_else(|| panic!("the last line of the report is an option -o: {}", self.text))
    }

    /// Returns the chunk sizes in the recommended option `slab_sizes`.
    pub fn sizes(&self) -> Vec<u64> {
        let numbers = self
            .option()
            .strip_prefix("slab_sizes=")
            .expect("the recommended option is slab_sizes");
        numbers.split('-').map(|number| number.parse().expect("a chunk size is a number")).collect()
    }

    /// Returns the whole report.
    pub fn text(&self) -> &str {
        &self.text
    }
}
