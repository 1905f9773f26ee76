//! Counts the lines of product code: all lines of the files that a build without tests compiles, except the lines of
//! test code in these files.

use crate::source::{Crate, SourceFile};
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::str::FromStr;

/// Numbers of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The number of all lines, including comments and blank lines.
    pub all: usize,
    /// The number of lines that contain code.
    pub code: usize,
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Lines) {
        self.all += other.all;
        self.code += other.code;
    }
}

/// Counts the product lines of a crate.
pub fn product_lines(code: &Crate) -> Lines {
    let mut total = Lines::default();
    for file in &code.files {
        total += file_lines(file);
    }
    total
}

/// Counts the product lines of a file.
fn file_lines(file: &SourceFile) -> Lines {
    let is_product = |line: &usize| !file.test_lines.iter().any(|range| range.contains(line));
    let all = (1..=file.text.lines().count()).filter(is_product).count();
    let mut code = BTreeSet::new();
    if let Ok(tokens) = TokenStream::from_str(&file.text) {
        add_code_lines(tokens, &mut code);
    }
    Lines { all, code: code.iter().filter(|line| is_product(line)).count() }
}

/// Adds the numbers of the lines that contain a token, except doc comments.
fn add_code_lines(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(mark) = &token
            && mark.as_char() == '#'
        {
            let bang = tokens
                .next_if(|next| matches!(next, TokenTree::Punct(mark) if mark.as_char() == '!'));
            if tokens.next_if(is_doc).is_some() {
                continue;
            }
            add_span(mark.span(), lines);
            lines.extend(bang.map(|bang| bang.span().start().line));
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                add_span(group.span_open(), lines);
                add_span(group.span_close(), lines);
                add_code_lines(group.stream(), lines);
            }
            token => add_span(token.span(), lines),
        }
    }
}

/// Adds the numbers of the lines of a span.
fn add_span(span: Span, lines: &mut BTreeSet<usize>) {
    lines.extend(span.start().line..=span.end().line);
}

/// True for `[doc = "..."]`, the tokens of a doc comment.
fn is_doc(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let mut inner = group.stream().into_iter();
    group.delimiter() == Delimiter::Bracket
        && matches!(inner.next(), Some(TokenTree::Ident(name)) if name == "doc")
        && matches!(inner.next(), Some(TokenTree::Punct(mark)) if mark.as_char() == '=')
}
