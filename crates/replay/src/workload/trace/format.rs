//! The formats of traces, and how a file tells its own.

use super::lines::{TWITTER_COLUMNS_AFTER_KEY, operation};

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// slabwise's records of 16 bytes.
    Slabwise,
    /// libCacheSim's oracleGeneral: records of 24 bytes.
    #[value(name = "oracleGeneral", alias = "oraclegeneral")]
    OracleGeneral,
    /// The lines of twitter/cache-trace.
    Twitter,
    /// The lines of CacheLib's kvcache traces.
    Kvcache,
    /// Lines of a key and a length.
    KeySize,
}

impl TraceFormat {
    /// The format of a trace of this name that begins like this; the error says why none is.
    pub(super) fn told_by(name: &str, head: &[u8]) -> Result<TraceFormat, String> {
        if name.to_ascii_lowercase().contains("oraclegeneral") {
            return Ok(TraceFormat::OracleGeneral);
        }
        if !is_text(head) || head.is_empty() {
            return Ok(TraceFormat::Slabwise);
        }
        let end = head.iter().position(|&byte| byte == b'\n').unwrap_or(head.len());
        let line = head[..end].strip_suffix(b"\r").unwrap_or(&head[..end]);
        let columns: Vec<&[u8]> = line.split(|&byte| byte == b',').collect();
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let has = |name: &str| columns.iter().any(|column| column.trim_ascii() == name.as_bytes());
        let is_twitter = columns.len() > TWITTER_COLUMNS_AFTER_KEY + 1
            && operation(columns[columns.len() - 2]).is_some();
        if has("key") && has("op") {
            Ok(TraceFormat::Kvcache)
        } else if is_twitter {
            Ok(TraceFormat::Twitter)
        } else if line.trim_ascii().is_empty() || line.starts_with(b"#") || words.count() == 2 {
            Ok(TraceFormat::KeySize)
        } else {
            Err("it is text, but neither seven columns with an operation (twitter), nor a header with 'key' and \
                 'op' (kvcache), nor a key and a size (key-size); say --format if it is one of them"
                .to_owned())
        }
    }
}

/// Whether bytes are of a text: no control characters but tabs and the ends of lines. A record of slabwise's is none, as
/// its reserved byte is 0.
fn is_text(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|&byte| matches!(byte, b'\t' | b'\n' | b'\r') || (byte >= b' ' && byte != 0x7f))
}
