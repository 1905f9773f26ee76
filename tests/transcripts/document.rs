//! Extracts the transcripts of a Markdown document: its fenced blocks with the language `transcript`.

/// Returns the text of each transcript. Empty lines replace the document's text before it, so that a line of the
/// transcript has the same number as in the document.
///
/// Returns an error if a fence has no language or is not closed, or if the document has no transcript.
pub fn transcripts(document: &str) -> Result<Vec<String>, String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in document.lines().enumerate() {
        let number = index + 1;
        match (line.strip_prefix("```"), &mut open) {
            (Some(""), open @ Some(_)) => blocks.extend(open.take().map(|(_, block)| block)),
            (Some(""), None) => {
                return Err(format!("{number}: the fence has no language; write it after ```"));
            }
            (Some(language), None) => open = Some((number, leading_lines(language, number))),
            (Some(_), Some((begun, _))) => {
                return Err(format!("{begun}: the fence is not closed; add a line ```"));
            }
            (None, Some((_, block))) if !block.is_empty() => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    if let Some((begun, _)) = open {
        return Err(format!("{begun}: the fence is not closed; add a line ```"));
    }
    blocks.retain(|block| !block.is_empty());
    if blocks.is_empty() {
        return Err("1: the document has no block that begins with ```transcript".to_owned());
    }
    Ok(blocks)
}

/// Returns the empty lines that replace the text before a transcript. Returns no line if the block has another
/// language.
fn leading_lines(language: &str, fence_line: usize) -> String {
    if language == "transcript" { "\n".repeat(fence_line) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::transcripts;

    #[test]
    fn the_lines_of_a_transcript_have_the_same_numbers_as_in_the_document() {
        let document =
            "# a\n```sh\n> x\n```\n```transcript\n> get a\n< END\n```\n```transcript\n> b\n```\n";
        let expected = ["\n\n\n\n\n> get a\n< END\n".to_owned(), "\n".repeat(9) + "> b\n"];
        assert_eq!(transcripts(document).expect("the document has two transcripts"), expected);
    }

    #[test]
    fn invalid_fences_and_documents_without_transcripts_are_errors() {
        for wrong in
            ["", "words\n```sh\nls\n```\n", "```\n> get a\n```\n", "```transcript\n> get a\n"]
        {
            assert!(transcripts(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            transcripts("\n```transcript\n```sh\n")
                .expect_err("the first fence is not closed")
                .split(':')
                .next(),
            Some("2")
        );
    }
}
