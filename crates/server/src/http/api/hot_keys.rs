//! `/api/v1/hot-keys`: the keys and the prefixes with the most gets.

use crate::config::HOT_KEYS_MAX;
use crate::http::hot_keys::{HotKeys, Share, Summaries};
use crate::stats::StatsContext;
use serde::Serialize;
use std::fmt::Write;

#[derive(Serialize)]
pub(super) struct HotKeysDocument {
    enabled: bool,
    /// How to turn the samples on; `None` if they are on.
    remedy: Option<String>,
    /// The number of gets whose keys were sampled since the start.
    samples: u64,
    /// The number of keys that were not sampled because the memory for them was full.
    samples_dropped: u64,
    keys: Vec<Entry>,
    prefixes: Vec<Entry>,
}

/// A key or a prefix.
#[derive(Serialize)]
struct Entry {
    name: String,
    /// The maximum share of the recent samples.
    get_share: f64,
    /// The difference between the maximum and the minimum share.
    get_share_error: f64,
}

pub(super) fn hot_keys(context: StatsContext<'_>, recorded: Option<&HotKeys>) -> HotKeysDocument {
    let shared = context.shared;
    let summaries = recorded.map(|it| &it.summaries);
    let remedy = || {
        format!(
            "start the server with -o http_hot_keys=N, where N is the number of keys to show, at most {HOT_KEYS_MAX}; \
             keys can be personal data"
        )
    };
    let count_max = shared.settings.hot_keys();
    let entry = |it: Share<'_>| Entry {
        name: text(it.name),
        get_share: it.share,
        get_share_error: it.error,
    };
    HotKeysDocument {
        enabled: recorded.is_some(),
        remedy: summaries.is_none().then(remedy),
        samples: summaries.map_or(0, Summaries::samples),
        samples_dropped: shared.key_samples.iter().flatten().map(|it| it.dropped()).sum(),
        keys: summaries.iter().flat_map(|it| it.keys()).take(count_max).map(entry).collect(),
        prefixes: summaries
            .iter()
            .flat_map(|it| it.prefixes())
            .take(count_max)
            .map(entry)
            .collect(),
    }
}

/// Returns a key as text. Visible ASCII characters except `%`, and letters and digits of other scripts in UTF-8, represent
/// themselves. All other bytes are percent-encoded. So the text has no space and no control character, and different keys
/// have different texts.
fn text(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    let encode = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            write!(text, "%{byte:02X}").expect("a write into a string succeeds");
        }
    };
    for chunk in key.utf8_chunks() {
        for char in chunk.valid().chars() {
            let is_plain = match char.is_ascii() {
                true => char.is_ascii_graphic() && char != '%',
                false => char.is_alphanumeric(),
            };
            if is_plain {
                text.push(char);
            } else {
                encode(&mut text, char.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        encode(&mut text, chunk.invalid());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn bytes_that_are_not_visible_are_percent_encoded() {
        for (key, expected) in [
            (&b"user:1<script>\"'&"[..], "user:1<script>\"'&"),
            (b"50%", "50%25"),
            (b"a b\x00\x7f", "a%20b%00%7F"),
            (b"\xff\xfe", "%FF%FE"),
            ("key\u{df}\u{4e2d}".as_bytes(), "key\u{df}\u{4e2d}"),
            (b"cut\xc3", "cut%C3"),
            // The character reverses the order in which a browser shows the text.
            ("\u{202e}key".as_bytes(), "%E2%80%AEkey"),
            (b"", ""),
        ] {
            assert_eq!(text(key), expected, "{}", key.escape_ascii());
        }
    }
}
