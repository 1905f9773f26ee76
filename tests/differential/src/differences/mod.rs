//! The listed differences: those that `docs/differences.md` explains. Each row of the table [`LISTED`] names a row of
//! that page, and decides whether this row explains a difference.

mod binary;
mod exchange;
mod meta;
mod text;

pub use exchange::Exchange;

/// A listed difference.
pub struct Listed {
    /// The heading in `docs/differences.md`.
    pub heading: &'static str,
    /// The first cell of the row below this heading.
    pub row: &'static str,
    /// True if this row explains the difference between the replies of an exchange.
    pub explains: fn(&Exchange<'_>) -> bool,
    /// True if, because of this row, the items of the servers may differ after an exchange with equal replies.
    pub is_silent: fn(&Exchange<'_>) -> bool,
    /// True if, because of this row, the servers may take other bytes for commands, so that only one of them takes the
    /// first half of the marker for a part of the step. No row explains another difference between the states of the
    /// connections, such as a server that is stuck or closes the connection.
    pub reads_other_commands: bool,
}

impl Listed {
    const fn reading_other_commands(self) -> Listed {
        Listed { reads_other_commands: true, ..self }
    }
}

const REPLIES: &str = "Replies";
const META: &str = "In the meta protocol";
const BINARY: &str = "In the binary protocol";

/// Returns a row whose difference always shows in the replies.
const fn visible(
    heading: &'static str,
    row: &'static str,
    explains: fn(&Exchange<'_>) -> bool,
) -> Listed {
    silent(heading, row, explains, |_| false)
}

/// Returns a row whose difference may not show in the replies.
const fn silent(
    heading: &'static str,
    row: &'static str,
    explains: fn(&Exchange<'_>) -> bool,
    is_silent: fn(&Exchange<'_>) -> bool,
) -> Listed {
    Listed { heading, row, explains, is_silent, reads_other_commands: false }
}

/// All listed differences.
pub static LISTED: [Listed; 22] = [
    silent(
        REPLIES,
        "`delete` with a delay or other words after the key",
        text::is_refused_delete,
        text::is_silent_delete,
    ),
    silent(
        REPLIES,
        "`set`, `add`, `replace` with one number too many",
        text::is_refused_cost,
        text::is_silent_cost,
    )
    .reading_other_commands(),
    visible(REPLIES, "a retrieval with a key that is too long", text::is_long_retrieval),
    silent(
        REPLIES,
        "flags or TTL of a storage command that are `-0` or below -2^63, or contain a tab or a zero byte",
        text::is_refused_number,
        text::is_silent_number,
    )
    .reading_other_commands(),
    visible(META, "the value of a refused `ms`", meta::is_value_of_refused_set)
        .reading_other_commands(),
    visible(
        META,
        "flag `b`, and a key with characters that are not in the base64 alphabet",
        meta::is_bad_base64,
    ),
    visible(META, "flag `k`, and the key in the reply to `me`", meta::is_key_flag),
    silent(META, "`me KEY b`", meta::is_examined_as_base64, meta::is_examine_of_base64),
    visible(
        META,
        "`ma` with `T` or `E`, if the new number has more digits",
        meta::is_expiry_of_longer_number,
    ),
    visible(
        META,
        "flag `t`, if `T` or `N` of the same request has expired the item",
        meta::is_time_of_expired_item,
    ),
    silent(
        META,
        "append, prepend or add that is refused because the value is too large",
        |_| false,
        meta::is_too_large_addition,
    ),
    silent(
        META,
        "an opaque token that is too long",
        meta::is_error_before_opaque,
        meta::is_change_despite_opaque,
    ),
    visible(
        META,
        "`exp` in the reply to `me`, if the item expires in more than 2^31 seconds",
        meta::is_far_expiry,
    ),
    visible(BINARY, "body of a packet with an unknown opcode", binary::is_unknown_opcode),
    visible(
        BINARY,
        "touch, gat, stat with a longer body than the command has",
        binary::is_longer_body,
    ),
    visible(
        BINARY,
        "requests before a packet with a wrong magic byte",
        binary::is_followed_by_other_bytes,
    ),
    visible(BINARY, "an invalid packet with a key of 2 KB or more", binary::is_very_long_key),
    silent(
        REPLIES,
        "append or prepend, if the item then is a few bytes larger than memcached's largest item",
        exchange::is_largest_addition,
        exchange::is_silent_largest_addition,
    ),
    visible(
        REPLIES,
        "`incr` or `decr` of a number in a value that is larger than the largest chunk",
        text::is_number_in_large_value,
    ),
    visible(
        REPLIES,
        "a fraction of `slabs automove ratio`, `slabs automove freeratio` or `lru tune` that is `nan`, `inf`, \
         hexadecimal or contains a tab or a carriage return; `lru tune` with percentages whose sum exceeds 2^32",
        text::is_odd_fraction,
    ),
    visible(
        META,
        "an `ms` whose value is not followed by CR LF",
        meta::is_misplaced_cas,
    ),
    visible(REPLIES, "the error for a value that is refused", exchange::is_early_error),
];

#[cfg(test)]
mod tests {
    use super::LISTED;

    #[test]
    fn the_page_has_each_row_below_its_heading() {
        let page = include_str!("../../../../docs/differences.md");
        for listed in &LISTED {
            let heading = format!("\n## {}\n", listed.heading);
            let (_, after) = page.split_once(&heading).unwrap_or_else(|| {
                panic!("docs/differences.md has the heading {}", listed.heading)
            });
            let section = after.split("\n## ").next().unwrap_or_default();
            let start = format!("\n| {}", listed.row);
            let has_row = section
                .match_indices(&start)
                .any(|(at, _)| section[at + start.len()..].starts_with(" |"));
            assert!(has_row, "the section {} has a row {}", listed.heading, listed.row);
        }
    }
}
