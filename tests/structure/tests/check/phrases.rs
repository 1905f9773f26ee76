//! Finding banned phrases.

use structure::phrases::{banned, rows};
use structure::texts::Text;

/// The table with which the tests find phrases.
const TABLE: &str = "\
Text.

| phrase | instead | because | allowed in |
|---|---|---|---|
| old word, old words | new word | it is old | docs/old.md, tests/old |
| what ... goes | a subject | it is a riddle | |
";

/// Returns the numbers of the lines of `text` that contain a banned phrase.
fn lines(path: &str, text: &str) -> Vec<String> {
    let texts = [Text { path: path.to_owned(), text: text.to_owned() }];
    let found = banned(&rows(TABLE).expect("each row of the table has four cells"), &texts);
    found.iter().map(|found| found.split(':').nth(1).unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_message_names_the_line_the_phrase_and_the_replacement() {
    let texts = [Text { path: "a.md".to_owned(), text: "One\nOld words.\n".to_owned() }];
    let found = banned(&rows(TABLE).expect("each row of the table has four cells"), &texts);
    assert_eq!(found, ["a.md:2: \"old words\"; instead: new word"]);
}

#[test]
fn phrases_are_found_in_comments_strings_and_names() {
    let text = "//! an old\n//! word\nfn old_word() {}\nstruct OldWord;\nf(\"a\\nold word\");\n# \"old\" word\n";
    assert_eq!(lines("a.rs", text), ["1", "3", "4", "5", "6"]);
}

#[test]
fn a_phrase_inside_longer_words_is_not_found() {
    assert!(lines("a.md", "fold word, old wordings, old, word").is_empty());
}

#[test]
fn a_gap_matches_one_to_six_words_of_one_sentence() {
    assert_eq!(lines("a.md", "what was read longest goes"), ["1"]);
    assert!(lines("a.md", "what goes; what is it? It goes; what a b c d e f g goes").is_empty());
}

#[test]
fn a_row_allows_its_phrases_in_the_named_files_and_folders() {
    assert!(lines("docs/old.md", "old word").is_empty());
    assert!(lines("tests/old/a/b.rs", "old word").is_empty());
    assert_eq!(lines("tests/older.rs", "old word"), ["1"]);
}

#[test]
fn a_row_without_four_cells_is_an_error() {
    assert!(rows("| a | b | c | d |\n|---|---|---|---|\n| a | b | |\n").is_err());
}
