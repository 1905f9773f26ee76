//! The dialogues of a document: its fenced blocks marked `transcript`, each one played on servers of
//! its own.

/// The blocks as sources of transcripts. Each stands behind as many empty lines as the document has
/// before it, so that line numbers are the document's.
///
/// `Err`: a fence that does not say what it holds, or is not closed; no block at all.
pub fn blocks(document: &str) -> Result<Vec<String>, String> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in document.lines().enumerate() {
        let number = index + 1;
        match (line.strip_prefix("```"), &mut open) {
            (Some(""), open @ Some(_)) => blocks.extend(open.take().map(|(_, block)| block)),
            (Some(""), None) => {
                return Err(format!("{number}: a fence that says not what it holds"));
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

/// The lines up to a fence, empty; nothing at all for a block that is no transcript.
fn start(word: &str, fence_line: usize) -> String {
    if word == "transcript" { "\n".repeat(fence_line) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn blocks_keep_the_lines_of_the_document() {
        let document =
            "# a\n```sh\n> x\n```\n```transcript\n> get a\n< END\n```\n```transcript\n> b\n```\n";
        let expected = ["\n\n\n\n\n> get a\n< END\n".to_owned(), "\n".repeat(9) + "> b\n"];
        assert_eq!(blocks(document).expect("two blocks"), expected);
    }

    #[test]
    fn a_document_without_dialogues_is_refused() {
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
