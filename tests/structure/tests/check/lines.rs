//! Counting the lines of product code.

use crate::fake_crate::read;
use structure::lines::{Lines, product_lines};

#[test]
fn comments_are_counted_as_lines_and_test_code_is_not() {
    let code = read(
        "lines",
        &[
            ("lib.rs", "//! Doc.\n\nmod a;\n\n/// Doc.\n#[inline]\npub fn f() {}\n// end\n"),
            (
                "a.rs",
                "const TEXT: &str = \"one\ntwo\";\n\n#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n",
            ),
        ],
    );
    assert_eq!(product_lines(&code), Lines { all: 8 + 3, code: 3 + 2 });
}

#[test]
fn a_file_with_only_test_code_has_no_product_lines() {
    let code =
        read("test_file", &[("lib.rs", "#[cfg(test)]\nmod tests;\n"), ("tests.rs", "fn f() {}\n")]);
    assert_eq!(product_lines(&code), Lines::default());
}
