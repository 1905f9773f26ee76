//! Files with servers.
//!
//! ```text
//!   # lines: a server each            - targets: ["10.0.0.1:11211", "10.0.0.2:11211"]
//!   10.0.0.1                            labels: {pool: sessions}
//!   10.0.0.2:11311  # spare           - targets: [cache-3.example.com:11211]
//! ```
//!
//! The second form is that of Prometheus' file-based service discovery (`file_sd_configs`), in JSON or YAML. Labels are
//! ignored.

use serde::Deserialize;
use slabwise_client::ServerAddress;

/// A group of the second form.
#[derive(Debug, Deserialize)]
struct Group {
    targets: Vec<String>,
}

/// Parses lines with a server each. A `#` begins a comment.
pub fn parse_lines(text: &str) -> Result<Vec<ServerAddress>, String> {
    let mut servers = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let server = line.split_once('#').map_or(line, |(server, _)| server).trim();
        if server.is_empty() {
            continue;
        }
        let invalid = |reason: &str| format!("line {number}: '{server}': {reason}");
        if server.contains(char::is_whitespace) {
            return Err(invalid("give one server in a line"));
        }
        servers.push(ServerAddress::parse_short(server).map_err(|reason| invalid(&reason))?);
    }
    Ok(servers)
}

/// Parses the groups of Prometheus' form.
pub fn parse_document(text: &str) -> Result<Vec<ServerAddress>, String> {
    let groups: Vec<Group> = serde_saphyr::from_str(text)
        .map_err(|error| format!("this is no list of groups with targets: {error}"))?;
    let server = |target: &String| {
        if target.contains(|it: char| it.is_whitespace() || it.is_control()) {
            return Err(format!("{target:?}: an address has no spaces"));
        }
        ServerAddress::parse_short(target).map_err(|reason| format!("'{target}': {reason}"))
    };
    groups.iter().flat_map(|group| &group.targets).map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::{parse_document, parse_lines};

    #[test]
    fn prometheus_files_of_both_forms_have_the_same_servers() {
        let json = r#"[{"targets": ["a", "b:2"], "labels": {"pool": "x"}}, {"targets": ["c:3"]}]"#;
        let yaml = "- targets: [a, 'b:2']\n  labels:\n    pool: x\n- targets:\n  - c:3\n";
        let lines = "a # first\n  b:2\n# other\nc:3";
        let texts = |parsed: Result<Vec<_>, String>| -> Vec<String> {
            let servers = parsed.unwrap_or_else(|error| panic!("{error}"));
            servers.iter().map(ToString::to_string).collect()
        };
        let expected = ["a:11211", "b:2", "c:3"];
        assert_eq!(texts(parse_document(json)), expected);
        assert_eq!(texts(parse_document(yaml)), expected);
        assert_eq!(texts(parse_lines(lines)), expected);
    }

    #[test]
    fn an_invalid_document_is_an_error_that_says_where() {
        for text in [
            "a",
            "- a",
            "- targets: a",
            "- labels: {}",
            "[{",
            "- targets: ['a:b:c']",
            "- targets: ['a b']",
        ] {
            assert!(parse_document(text).is_err(), "{text}");
        }
        let error = parse_document("- targets: ['a:b:c']").expect_err("a server is invalid");
        assert!(error.starts_with("'a:b:c': give HOST"), "{error}");
    }
}
