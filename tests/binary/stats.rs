//! The binary `stat` command reports the same statistics as the text command.

use std::collections::BTreeSet;

use super::packet::{SETQ, STAT, keyed, store};
use super::peer::Peer;
use crate::support::{Client, Server, stock_memcached, under_test};

/// Returns the names of the statistics that the text protocol reports.
fn names_in_text(client: &mut Client, command: &str) -> BTreeSet<String> {
    client.send(format!("{command}\r\n").as_bytes());
    let mut names = BTreeSet::new();
    loop {
        let line = client.read_line();
        if line == "END" {
            return names;
        }
        names.insert(line.split(' ').nth(1).expect("STAT <name> <value>").to_owned());
    }
}

#[test]
fn binary_stats_have_the_same_names_as_text_stats() {
    let mut peer = Peer::start(&under_test());
    peer.step(&store(SETQ, "k", b"value"));
    let mut text = peer.server().connect();
    for subject in ["", "settings", "items", "slabs", "sizes"] {
        let replies = peer.step(&keyed(STAT, subject)).replies;
        let (end, rows) = replies.split_last().expect("an empty reply ends the statistics");
        assert!(end.key.is_empty() && end.value.is_empty() && end.status == 0, "{end:?}");
        let names: BTreeSet<String> = rows
            .iter()
            .map(|row| {
                assert!(row.opcode == STAT && row.status == 0 && !row.value.is_empty(), "{row:?}");
                String::from_utf8(row.key.clone()).expect("names are text")
            })
            .collect();
        assert_eq!(names.len(), rows.len(), "no name is reported twice");
        assert_eq!(names, names_in_text(&mut text, &format!("stats {subject}")), "{subject}");
    }
}

#[test]
fn stats_detail_dump_is_one_value() {
    let flags = ["-D", ":"];
    let mut servers =
        [under_test(), stock_memcached()].map(|command| Peer::start(&command.with(&flags)));
    let [slabwise, memcached] = servers.each_mut().map(|peer| {
        peer.step(&store(SETQ, "a:k", b"value"));
        peer.step(&keyed(0x00, "a:k"));
        peer.step(&keyed(0x1c, "a:none").extras(&[0; 4]));
        peer.step(&keyed(0x04, "a:none"));
        peer.step(&keyed(STAT, "detail dump"))
    });
    assert_eq!(slabwise, memcached);
}

#[test]
fn text_and_binary_requests_share_counters() {
    let server = Server::start(&under_test());
    let mut text = server.connect();
    let mut binary = Peer::of(server);
    binary.step(&store(SETQ, "k", b"value"));
    binary.step(&keyed(0x00, "k"));
    binary.step(&keyed(0x09, "none"));
    assert_eq!(text.get("k").as_deref(), Some(&b"value"[..]));
    assert_eq!((text.stat("cmd_set"), text.stat("get_hits"), text.stat("get_misses")), (1, 2, 1));
}
