//! Invalid input to `slabwise classes`: the command prints one error line and exits with code 1. Without a source of
//! item sizes, the command prints the class table that its options result in.

use super::advice::{Advice, run};
use crate::support::{Server, under_test};

#[test]
fn an_error_is_one_line_that_names_the_cause() {
    let empty = Server::start(&under_test());
    let address = empty.address().to_string();
    let cases: [(&[&str], &str); 8] = [
        (&["--from-histogram", "/nowhere/sizes"], "/nowhere/sizes: cannot be read"),
        (&["--from-histogram", "/dev/null"], "/dev/null: has no items"),
        (&["--from-histogram", "/dev/zero"], "/dev/zero, line 1: the line has more than"),
        (&["--from-histogram", "f", "--classes", "0"], "give 1 to 63"),
        (&["--from-histogram", "f", "--classes", "64"], "give 1 to 63"),
        (&["--from-server", "localhost:x"], "give HOST, HOST:PORT"),
        (&["--json"], "give --from-server or --from-histogram"),
        (&["--from-server", &address], "has no items: fill it"),
    ];
    for (args, reason) in cases {
        let output = run(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
        assert!(errors.starts_with("slabwise classes: ") && errors.contains(reason), "{errors}");
        assert!(errors.lines().count() == 1 && output.stdout.is_empty(), "{args:?}: {errors}");
    }
}

#[test]
fn classes_without_a_source_of_sizes_prints_the_class_table() {
    let output = run(&["-f", "2", "-m", "64"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("slab class   1: chunk size"), "{text}");
    assert!(Advice::of(&["--help"]).text().contains("--from-server"));
}
