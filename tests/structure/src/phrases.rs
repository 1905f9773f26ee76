//! Finds the phrases that docs/phrases.md bans.
//!
//! Each row of the table in docs/phrases.md has four cells: phrases, their replacements, the reason, and the files and
//! folders in which the phrases are allowed. Commas separate phrases, and also paths. `...` in a phrase matches one to
//! six words of a sentence. Names count as text: `cost_known`, `CostKnown` and `cost known` are the same words. A
//! phrase can span several lines, also lines of a comment.

use crate::texts::Text;

/// The maximum number of words that `...` matches.
const GAP_WORDS_MAX: usize = 6;

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Each phrase as written, and its parts.
    phrases: Vec<(String, Vec<Part>)>,
    /// The text to write instead.
    instead: String,
    /// The paths of files and folders in which the phrases are allowed.
    allowed_in: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This word or punctuation mark.
    Word(String),
    /// Any one to six words.
    Gap,
}

/// Returns the rows of the table in a Markdown text. Returns an error for a row that does not have four cells.
pub fn rows(markdown: &str) -> Result<Vec<Row>, String> {
    let lines = markdown.lines().filter(|line| line.starts_with('|')).skip(2);
    lines
        .map(|line| row(line).ok_or_else(|| format!("the row must have four cells: {line}")))
        .collect()
}

/// Parses a row. Returns `None` if it does not have four cells.
fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> =
        line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let [phrases, instead, _, allowed_in] = cells[..] else { return None };
    Some(Row {
        phrases: list(phrases).map(|phrase| (phrase.to_owned(), parts(phrase))).collect(),
        instead: instead.to_owned(),
        allowed_in: list(allowed_in).map(|path| path.trim_matches('`').to_owned()).collect(),
    })
}

/// Returns the entries of a cell, which commas separate.
fn list(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// Splits a phrase into words and gaps.
fn parts(phrase: &str) -> Vec<Part> {
    let mut parts = vec![];
    for entry in phrase.split_whitespace() {
        match entry {
            "..." => parts.push(Part::Gap),
            entry => parts.extend(words(entry).into_iter().map(|word| Part::Word(word.text))),
        }
    }
    parts
}

/// Returns a message for each banned phrase in the texts.
pub fn banned(rows: &[Row], texts: &[Text]) -> Vec<String> {
    let mut found = vec![];
    for text in texts {
        let rows: Vec<&Row> = rows.iter().filter(|row| !row.allows(&text.path)).collect();
        let words = words(&text.text);
        for (index, word) in words.iter().enumerate() {
            for row in &rows {
                for (phrase, _) in
                    row.phrases.iter().filter(|(_, parts)| matches(parts, &words[index..]))
                {
                    let place = format!("{}:{}", text.path, word.line);
                    found.push(format!("{place}: \"{phrase}\"; instead: {}", row.instead));
                }
            }
        }
    }
    found
}

impl Row {
    /// True if the row allows its phrases in this file, or in a folder that contains the file.
    fn allows(&self, path: &str) -> bool {
        let is_below = |allowed: &String| path.strip_prefix(allowed.as_str());
        self.allowed_in
            .iter()
            .filter_map(is_below)
            .any(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// True if the words begin with the phrase that consists of these parts.
fn matches(parts: &[Part], words: &[Word]) -> bool {
    match parts.split_first() {
        None => true,
        Some((Part::Word(expected), rest)) => words
            .split_first()
            .is_some_and(|(word, words)| word.text == *expected && matches(rest, words)),
        Some((Part::Gap, rest)) => {
            let length = words.iter().take(GAP_WORDS_MAX).take_while(|word| word.is_word()).count();
            (1..=length).any(|length| matches(rest, &words[length..]))
        }
    }
}

/// A word in lower case, or a punctuation mark.
struct Word {
    text: String,
    /// The number of the line, starting at 1.
    line: usize,
}

impl Word {
    fn is_word(&self) -> bool {
        self.text.starts_with(char::is_alphanumeric)
    }
}

/// Splits a text into words and punctuation marks.
fn words(text: &str) -> Vec<Word> {
    let mut words = vec![];
    for (index, line) in text.lines().enumerate() {
        add_words(line, index + 1, &mut words);
    }
    words
}

/// Adds the words of a line. Leaves out the characters that begin a comment, and quotation marks.
fn add_words(line: &str, number: usize, words: &mut Vec<Word>) {
    let line =
        line.trim_start_matches(|letter: char| letter.is_whitespace() || "/!#*>".contains(letter));
    let mut word = String::new();
    let mut letters = line.chars().peekable();
    let mut finish = |word: &mut String| {
        if !word.is_empty() {
            words.push(Word { text: std::mem::take(word).to_lowercase(), line: number });
        }
    };
    while let Some(letter) = letters.next() {
        if letter.is_alphanumeric() {
            let next_is_capital = letters.peek().is_some_and(|next| next.is_uppercase());
            word.push(letter);
            if letter.is_lowercase() && next_is_capital {
                finish(&mut word);
            }
            continue;
        }
        finish(&mut word);
        if letter == '\\' {
            letters.next();
        } else if !letter.is_whitespace() && !"_`\"*".contains(letter) {
            word.push(letter);
            finish(&mut word);
        }
    }
    finish(&mut word);
}
