//! Versions with other formats: which ones hand over to each other, and what they hand over. A relay changes the formats that
//! the running server offers, as another version would.

use super::relay::{Action, RelayedUpgrade};
use super::setup::{Items, TIMEOUT, assert_filled, fill};
use crate::support::{Client, wait_until};

const ITEMS: usize = 500;

/// Upgrades a server whose offer has `from` replaced by `to`. Returns the log of the new process, and whether it has the
/// items.
fn upgrade_with(items: Items, from: &str, to: &str) -> (String, bool) {
    let RelayedUpgrade { setup, mut server, mut client, mut new, relay } =
        RelayedUpgrade::begin(items, ITEMS);
    let mut is_changed = false;
    relay.run(|text| {
        if text.starts_with("offer\n") && text.contains(from) {
            is_changed = true;
            return Action::Replace(text.replace(from, to));
        }
        Action::Forward
    });
    assert!(is_changed, "the offer has {from:?}");
    // The kernel closes the channel of a process that ends. The relay does so, too.
    drop(relay);
    assert_eq!(server.wait_for_end(), Some(0), "{}{}", setup.log("log"), setup.log("log1"));
    wait_until("the new process serves", TIMEOUT, || setup.path("ports").exists());
    // The connection was handed over in any case.
    let has_items = client.get("key1").is_some();
    if has_items {
        assert_filled(&mut client, ITEMS);
    }
    fill(&mut client, ITEMS);
    assert_filled(&mut Client::connect(server.address()), ITEMS);
    assert_eq!(client.ask("debugcheck"), "OK");
    new.kill().expect("the child is ours");
    new.wait().expect("the child is ours");
    (setup.log("log1"), has_items)
}

#[test]
fn another_format_of_the_index_leads_to_a_rebuild() {
    for items in [Items::Nameless, Items::File] {
        // An older version, and a newer one.
        for format in [0, 999] {
            let (log, has_items) =
                upgrade_with(items, "\nindex_format=1\n", &format!("\nindex_format={format}\n"));
            assert!(has_items && log.contains("is rebuilt, for about"), "{log}");
        }
    }
}

#[test]
fn another_format_of_the_memory_leads_to_an_empty_cache_without_a_refused_connection() {
    for items in [Items::Nameless, Items::File] {
        for format in [5, 999] {
            let (log, has_items) =
                upgrade_with(items, "\nformat=6\n", &format!("\nformat={format}\n"));
            assert!(!has_items && log.contains("starts with an empty cache"), "{log}");
        }
    }
}
