//! References: names in the code are resolved to the modules that define them.

use crate::fake_crate::{edges, read_folders};

#[test]
fn imports_and_paths_in_code_are_edges() {
    let folders = read_folders(
        "imports_and_paths",
        &[
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
            ("a.rs", "use crate::b::{self, B};\nfn f(_: B) { super::c::g(); }"),
            ("b.rs", "pub struct B;\nfn f() -> Vec<crate::d::D> { vec![crate::e::E::new()] }"),
            ("c.rs", "pub fn g() {}"),
            ("d.rs", "pub struct D;"),
            ("e.rs", "pub struct E;"),
        ],
    );
    assert_eq!(edges(&folders, "fake"), ["a -> b", "a -> c", "b -> d", "b -> e"]);
}

#[test]
fn a_re_export_is_no_edge_but_its_use_is_an_edge_to_the_definition() {
    let folders = read_folders(
        "re_exports",
        &[
            ("lib.rs", "mod user; mod store;\npub use store::{Item, renamed::Old as New};"),
            ("user.rs", "use crate::Item;\nfn f(_: crate::New, _: Item) {}"),
            ("store/mod.rs", "mod item;\npub mod renamed;\npub use item::Item;"),
            ("store/item.rs", "pub struct Item;"),
            ("store/renamed.rs", "pub struct Old;"),
        ],
    );
    assert_eq!(edges(&folders, "fake"), ["user -> store"]);
    assert_eq!(edges(&folders, "fake::store"), Vec::<String>::new());
}

#[test]
fn code_that_uses_a_re_export_of_its_own_module_is_an_edge() {
    let folders = read_folders(
        "own_re_export",
        &[("lib.rs", "mod a;\npub use a::A;\npub fn make() -> A { A }"), ("a.rs", "pub struct A;")],
    );
    assert_eq!(edges(&folders, "fake"), ["lib -> a"]);
}

#[test]
fn an_edge_belongs_to_the_innermost_folder_that_contains_both_modules() {
    let folders = read_folders(
        "hierarchy",
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod x; mod y;\npub struct A;"),
            ("a/x.rs", "use super::y::Y;\nuse crate::b::deep::B;"),
            ("a/y.rs", "use super::A;\npub struct Y;"),
            ("b/mod.rs", "pub mod deep;"),
            ("b/deep.rs", "pub struct B;"),
        ],
    );
    assert_eq!(edges(&folders, "fake"), ["a -> b"]);
    assert_eq!(edges(&folders, "fake::a"), ["x -> y", "y -> mod"]);
}

#[test]
fn references_in_test_code_are_not_edges() {
    let folders = read_folders(
        "test_code",
        &[
            ("lib.rs", "mod a; mod b;\n#[cfg(all(test, not(loom)))] mod tests;"),
            (
                "a.rs",
                "pub struct A;\n#[cfg(test)] use crate::b::B;\n#[cfg(test)] mod tests { use crate::b::B; }",
            ),
            (
                "b.rs",
                "pub struct B;\n#[cfg(any(test, loom))] use crate::a::A;\n\
                 impl B { #[cfg(test)] fn f(_: crate::b::B) {} }",
            ),
        ],
    );
    assert_eq!(edges(&folders, "fake"), ["b -> a"]);
}

#[test]
fn paths_in_macro_calls_are_edges() {
    let folders = read_folders(
        "macro_tokens",
        &[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "fn f() { assert_eq!(crate::b::g(1), 2); }"),
            ("b.rs", "use super::c::number;\npub fn g(x: u32) -> u32 { x }"),
            ("c.rs", "macro_rules! number { () => { 1 } }\npub(crate) use number;"),
        ],
    );
    assert_eq!(edges(&folders, "fake"), ["a -> b", "b -> c"]);
}

#[test]
fn paths_in_attributes_are_edges_except_in_the_compilers_attributes() {
    let folders = read_folders(
        "attribute_tokens",
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[error(\"{}\", crate::b::text())] pub struct A;"),
            ("b.rs", "#[derive(crate::a::Derive)] pub struct B;\npub fn text() -> String {}"),
        ],
    );
    assert_eq!(edges(&folders, "fake"), ["a -> b"]);
}

#[test]
fn an_impl_in_another_top_level_module_is_an_edge_from_the_types_module() {
    let folders = read_folders(
        "methods_outside",
        &[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "pub struct A;"),
            ("b.rs", "use crate::a::A;\nimpl A { fn f(&self) {} }"),
            ("c.rs", "use crate::a::A;\nimpl Clone for A { fn clone(&self) -> A { A } }"),
        ],
    );
    assert_eq!(edges(&folders, "fake"), ["a -> b", "b -> a", "c -> a"]);
}

#[test]
fn an_impl_in_another_file_of_the_types_top_level_module_is_no_edge() {
    let folders = read_folders(
        "methods_shared",
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod x; mod y;\npub use x::A;"),
            ("a/x.rs", "pub struct A;"),
            ("a/y.rs", "use super::x::A;\nimpl A { fn f(&self) {} }"),
            ("b.rs", "use crate::A;"),
        ],
    );
    assert_eq!(edges(&folders, "fake::a"), ["y -> x"]);
}
