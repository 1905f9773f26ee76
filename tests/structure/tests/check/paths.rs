//! Request paths: each step must name an existing function. An error names the missing file or function.

use crate::fake_crate::write;
use structure::paths::{Step, missing, steps};

/// The source file in which the steps of the tests look up functions.
const SOURCE: &str = "
fn free() {}
pub trait Serve { fn serve(&self); }
pub struct Server;
impl Server { fn start() {} }
impl Serve for Server { fn serve(&self) {} }
mod inner { pub fn within() {} }
#[cfg(test)]
mod tests { fn tested() {} }
";

/// Returns a step of the path `get`.
fn step(file: &str, function: &str) -> Step {
    Step { title: "get".to_owned(), file: file.to_owned(), function: function.to_owned() }
}

#[test]
fn steps_are_read_from_fenced_blocks() {
    let text = "Text: not a step.\n```path get\na/b.rs: f   # first\n\na/c.rs: T::g\n```\nx: y\n";
    assert_eq!(steps(text), Ok(vec![step("a/b.rs", "f"), step("a/c.rs", "T::g")]));
    assert_eq!(
        steps("```path get\na/b.rs\n```"),
        Err("path get: write the step as `file: function`: a/b.rs".to_owned())
    );
}

#[test]
fn free_functions_and_methods_are_found_and_test_functions_are_not() {
    let root = write("paths", "fake", &[("lib.rs", SOURCE)]);
    for function in ["free", "Server::start", "Server::serve", "Serve::serve", "within"] {
        assert_eq!(missing(&root, &step("fake/lib.rs", function)), None);
    }
    for (file, function, message) in [
        ("fake/lib.rs", "start", "path get: fake/lib.rs has no function start"),
        ("fake/lib.rs", "tested", "path get: fake/lib.rs has no function tested"),
        ("fake/lib.rs", "stop", "path get: fake/lib.rs has no function stop"),
        ("fake/lib.rs", "Other::start", "path get: fake/lib.rs has no function Other::start"),
        ("fake/main.rs", "free", "path get: there is no file fake/main.rs"),
        ("main.rs", "free", "path get: main.rs does not begin with a crate and /"),
    ] {
        assert_eq!(missing(&root, &step(file, function)).as_deref(), Some(message));
    }
}
