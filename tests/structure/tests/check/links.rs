//! Finding dead links.

use std::path::Path;
use structure::links::dead_links;
use structure::texts::Text;

/// Returns a Markdown file.
fn page(path: &str, text: &str) -> Text {
    Text { path: path.to_owned(), text: text.to_owned() }
}

/// Returns the messages about dead links in `docs/a.md`, which has this text. There is also a file `docs/b.md`.
fn dead(text: &str) -> Vec<String> {
    let other = page(
        "docs/b.md",
        "# The `first` heading\n\n## Twice, twice\n\n## Twice, twice\n\n<a id=\"x\"></a>Text\n",
    );
    dead_links(Path::new("/no such folder"), &[page("docs/a.md", text), other])
}

#[test]
fn links_to_existing_files_and_headings_are_not_reported() {
    let text = "# Here\n\n[a](b.md) [b](b.md#the-first-heading) \
                [c](../docs/b.md#twice-twice-1) [d](#here) [e](b.md#x)\n";
    assert!(dead(text).is_empty());
}

#[test]
fn links_to_other_sites_and_links_in_code_are_not_checked() {
    assert!(dead("<https://example.org> [a](https://example.org/x#y) `[b](c.md)`\n").is_empty());
}

#[test]
fn a_link_to_a_missing_file_is_reported() {
    assert_eq!(dead("\n[a](c.md)\n"), ["docs/a.md:2: c.md: there is no docs/c.md"]);
}

#[test]
fn a_link_to_a_missing_image_is_reported() {
    assert_eq!(dead("![a](c.svg)"), ["docs/a.md:1: c.svg: there is no docs/c.svg"]);
}

#[test]
fn a_link_to_a_missing_heading_is_reported() {
    let expected = "docs/a.md:1: b.md#twice-twice-2: docs/b.md has no anchor #twice-twice-2";
    assert_eq!(dead("[a](b.md#twice-twice-2)"), [expected]);
}

#[test]
fn a_link_to_a_missing_heading_of_the_same_file_is_reported() {
    assert_eq!(dead("[a](#there)"), ["docs/a.md:1: #there: docs/a.md has no anchor #there"]);
}
