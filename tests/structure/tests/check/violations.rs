//! Violations of declared layers: cycles, upward references and wrong declarations.

use crate::fake_crate::{read_folders, write};
use std::path::Path;
use structure::layers::{Declaration, crate_graph, declarations, violations};
use structure::source::Crate;

/// A crate whose module a uses b, and whose module b uses c.
const CHAIN: [(&str, &str); 4] = [
    ("lib.rs", "mod a; mod b; mod c;"),
    ("a.rs", "use crate::b::B;\npub struct A;"),
    ("b.rs", "use crate::c::C;\npub struct B;"),
    ("c.rs", "pub struct C;"),
];

/// Parses a declaration.
fn declared(text: &str) -> Declaration {
    declarations(text).pop().expect("the text contains a declaration")
}

#[test]
fn references_to_lower_layers_are_no_violation() {
    let folders = read_folders("in_layers", &CHAIN);
    let declaration = declared("text\n```layers fake\na   # the top\n\nb\nc\n```\n");
    assert_eq!(declaration.layers, [["a"], ["b"], ["c"]]);
    assert_eq!(violations(&folders[0], Some(&declaration)), Vec::<String>::new());
}

#[test]
fn a_reference_to_the_same_or_a_higher_layer_is_reported_with_its_line() {
    let folders = read_folders("upwards", &CHAIN);
    let found = violations(&folders[0], Some(&declared("```layers fake\na\nc\nb\n```")));
    assert_eq!(
        found,
        [
            "fake: b -> c uses a module that is not in a lower layer\n    b -> c    crates/fake/src/b.rs:1  crate::c::C"
        ]
    );
    let found = violations(&folders[0], Some(&declared("```layers fake\na b\nc\n```")));
    assert_eq!(
        found,
        [
            "fake: a -> b uses a module that is not in a lower layer\n    a -> b    crates/fake/src/a.rs:1  crate::b::B"
        ]
    );
}

#[test]
fn cycles_are_reported_from_the_shortest_to_the_longest() {
    let folders = read_folders(
        "cycles",
        &[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;\npub struct B;"),
            ("c.rs", "use crate::d::D;\npub struct C;"),
            ("d.rs", "use crate::a;\n\nfn f(_: crate::b::B) { crate::c::g() }\npub struct D;"),
        ],
    );
    let found = violations(&folders[0], None);
    assert_eq!(
        found[0],
        "fake: c -> d -> c is a cycle\n    \
         c -> d    crates/fake/src/c.rs:1  crate::d::D\n    \
         d -> c    crates/fake/src/d.rs:3  crate::c::g"
    );
    let first_lines: Vec<&str> = found.iter().filter_map(|text| text.lines().next()).collect();
    assert_eq!(
        first_lines[1..],
        ["fake: b -> c -> d -> b is a cycle", "fake: a -> b -> c -> d -> a is a cycle",]
    );
}

#[test]
fn references_from_a_parent_to_its_child_and_back_are_a_cycle() {
    let folders = read_folders(
        "child_and_parent",
        &[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod x;\npub struct A;\nfn f() { x::g() }"),
            ("a/x.rs", "pub fn g(_: super::A) {}"),
        ],
    );
    let found = violations(&folders[1], None);
    assert!(found[0].starts_with("fake::a: mod -> x -> mod is a cycle"), "{found:?}");
}

#[test]
fn modules_that_are_declared_twice_or_never_are_reported() {
    let folders = read_folders("declared_once", &CHAIN);
    let found = violations(&folders[0], Some(&declared("```layers fake\na\nb\nb e\n```")));
    assert_eq!(
        found,
        [
            "fake: b is declared twice",
            "fake: e is declared, but there is no such module",
            "fake: c is in no declared layer",
        ]
    );
}

#[test]
fn references_between_crates_are_checked_like_those_between_modules() {
    let low = [("lib.rs", "pub struct L;")];
    let root = write("crates", "slabwise-low", &low);
    write("crates", "slabwise-high", &[("lib.rs", "use slabwise_low::L;\nuse std::fmt;")]);
    let crates = ["slabwise-high", "slabwise-low"].map(|name| {
        Crate::read(&root, &Path::new("crates").join(name))
            .expect("the crate of the test can be read")
    });
    let graph = crate_graph(&crates);
    let found = violations(&graph, Some(&declared("```layers crates\nlow\nhigh\n```")));
    assert_eq!(
        found,
        ["crates: high -> low uses a module that is not in a lower layer\n    \
          high -> low    crates/slabwise-high/src/lib.rs:1  slabwise_low::L"]
    );
    assert!(violations(&graph, Some(&declared("```layers crates\nhigh\nlow\n```"))).is_empty());
}
