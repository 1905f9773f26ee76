//! Extracts the dialogues of a Markdown document: its fenced blocks marked `transcript`. Each is played on a new
//! server.

/// Returns the source of each transcript block. Empty lines replace the text before a block, so that line numbers
/// are those of the document.
///
/// Returns an error if a fence has no language or is not closed, or if there is no transcript block.
pub fn blocks(document: &str) -> Result<Vec<String>, String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in document.lines().enumerate() {
        let number = index + 1;
        match (line.strip_prefix("```"), &mut open) {
            (Some(""), open @ Some(_)) => blocks.extend(open.take().map(|(_, block)| block)),
            (Some(""), None) => {
                return Err(format!("{number}: a fence without a language"));
            }
            (Some(word), None) => open = Some((number, start(word, number))),
            (Some(_), Some((begun, _))) => {
                return Err(format!("{begun}: a fence that is not closed"));
            }
            (None, Some((_, block))) if !block.is_empty() => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    if let Some((begun, _)) = open {
        return Err(format!("{begun}: a fence that is not closed"));
    }
    blocks.retain(|block| !block.is_empty());
    if blocks.is_empty() {
        return Err("1: no block is marked ```transcript".to_owned());
    }
    Ok(blocks)
}

/// Returns the empty lines before a transcript block; nothing for a block of another language.
fn start(word: &str, fence_line: usize) -> String {
    if word == "transcript" { "\n".repeat(fence_line) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn blocks_keep_the_line_numbers_of_the_document() {
        let document =
            "# a\n```sh\n> x\n```\n```transcript\n> get a\n< END\n```\n```transcript\n> b\n```\n";
        let expected = ["\n\n\n\n\n> get a\n< END\n".to_owned(), "\n".repeat(9) + "> b\n"];
        assert_eq!(blocks(document).expect("two blocks"), expected);
    }

    #[test]
    fn invalid_fences_and_documents_without_transcripts_are_errors() {
        for wrong in
            ["", "words\n```sh\nls\n```\n", "```\n> get a\n```\n", "```transcript\n> get a\n"]
        {
            assert!(blocks(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            blocks("\n```transcript\n```sh\n").expect_err("not closed").split(':').next(),
            Some("2")
        );
    }
}
