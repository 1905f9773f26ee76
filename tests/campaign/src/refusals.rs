//! The refusals that a server may send: a value is too large, or there is no memory for it.

use crate::operation::Verb;

/// A text of a refusal, without the prefix of the text protocols.
struct Refusal {
    text: &'static str,
    /// True if only memcached sends it.
    is_of_memcached: bool,
    /// True if a request with this verb may be refused with it.
    fits: fn(Verb) -> bool,
}

const fn row(text: &'static str, is_of_memcached: bool, fits: fn(Verb) -> bool) -> Refusal {
    Refusal { text, is_of_memcached, fits }
}

/// Every refusal.
static REFUSALS: &[Refusal] = &[
    row("object too large for cache", false, has_value),
    row("out of memory storing object", false, has_value),
    row("out of memory", false, changes_item),
    row("Out of memory during read", true, has_value),
    row("Out of memory allocating new item", false, Verb::steps),
    row("Out of memory incrementing value", false, Verb::steps),
    // Those of the binary protocol.
    row("Too large.", false, has_value),
    row("Out of memory allocating item", false, has_value),
    row("Out of memory", false, changes_item),
];

fn has_value(verb: Verb) -> bool {
    verb.stores() || verb.adds_part()
}

/// True if the request changes an item, and so may need memory for a copy, because a reply still refers to the item.
fn changes_item(verb: Verb) -> bool {
    verb.steps() || verb.touches() || verb == Verb::Delete
}

/// True if a server may refuse a request with this text. The request has one of the verbs.
pub fn is_known(text: &[u8], verbs: &[Verb], is_memcached: bool) -> bool {
    let text = text.strip_prefix(b"SERVER_ERROR ").unwrap_or(text);
    REFUSALS.iter().any(|refusal| {
        refusal.text.as_bytes() == text
            && (is_memcached || !refusal.is_of_memcached)
            && verbs.iter().any(|&verb| (refusal.fits)(verb))
    })
}

#[cfg(test)]
mod tests {
    use super::is_known;
    use crate::operation::Verb;

    #[test]
    fn only_known_texts_of_the_command_are_accepted() {
        assert!(is_known(b"SERVER_ERROR out of memory storing object", &[Verb::Set], false));
        assert!(is_known(b"Out of memory allocating item", &[Verb::Append], false));
        assert!(!is_known(b"SERVER_ERROR busy", &[Verb::Set], false));
        assert!(!is_known(b"SERVER_ERROR out of memory storing object", &[Verb::Touch], false));
        assert!(!is_known(b"SERVER_ERROR out of memory", &[Verb::Get, Verb::Gets], false));
        assert!(!is_known(b"Out of memory during read", &[Verb::Set], false));
        assert!(is_known(b"Out of memory during read", &[Verb::Set], true));
    }
}
