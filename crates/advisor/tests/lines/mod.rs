//! The invariants of the parsers of lines, for the fuzz target `advise` and for the property test.

use slabwise_advisor::chunk_sizes::{
    Form, HistogramLine, parse_histogram_line, parse_metadump_line,
};

/// The maximum length of an error text beside the line that it quotes.
const ERROR_LEN_MAX: usize = 400;

/// Parses each line of the input. A parsed number is in the line, and an error is one line without control characters.
pub fn check(input: &[u8]) {
    for line in input.split(|&byte| byte == b'\n') {
        if let Some((class, size_bytes)) = parse_metadump_line(line) {
            let text = std::str::from_utf8(line).expect("a parsed line is text");
            assert!(text.starts_with("key="), "{text}");
            for (name, number) in [("cls=", class), ("size=", size_bytes as u64)] {
                let mut words = text.split(' ').filter_map(|word| word.strip_prefix(name));
                assert_eq!(words.next().and_then(|word| word.parse().ok()), Some(number), "{text}");
            }
        }
        match parse_histogram_line(line) {
            Ok(HistogramLine::Items { form, size_bytes, items }) => {
                let text = std::str::from_utf8(line).expect("a parsed line is text");
                assert!(size_bytes > 0, "{text}");
                assert_eq!(text.contains("STAT"), form == Form::Stats, "{text}");
                assert!(form != Form::Sizes || items == 1, "{text}");
            }
            Ok(HistogramLine::Blank | HistogramLine::Header | HistogramLine::End) => {}
            Err(error) => {
                assert!(!error.chars().any(char::is_control), "{}", error.escape_debug());
                assert!(error.len() <= ERROR_LEN_MAX + line.len(), "{error}");
            }
        }
    }
}
