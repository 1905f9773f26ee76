//! Statistics of the binary command `stat`, compared with those of the text command `stats`.

use std::collections::BTreeSet;

use super::connected_server::ConnectedServer;
use super::packet::{SETQ, STAT, keyed, store};
use crate::support::{Client, Server, stock_memcached, under_test};

/// Returns the names of the statistics in the reply to a text command.
fn names_in_text(client: &mut Client, command: &str) -> BTreeSet<String> {
    client.send(format!("{command}\r\n").as_bytes());
    let mut names = BTreeSet::new();
    loop {
        let line = client.read_line();
        if line == "END" {
            return names;
        }
        names.insert(line.split(' ').nth(1).expect("each line is STAT <name> <value>").to_owned());
    }
}

#[test]
fn binary_stats_have_the_same_names_as_text_stats() {
    let mut server = ConnectedServer::start(&under_test());
    server.step(&store(SETQ, "k", b"value"));
    let mut text = server.process().connect();
    for subject in ["", "settings", "items", "slabs", "sizes"] {
        let replies = server.step(&keyed(STAT, subject)).replies;
        let (end, rows) =
            replies.split_last().expect("a packet without a name ends the statistics");
        assert!(end.key.is_empty() && end.value.is_empty() && end.status == 0, "{end:?}");
        let names: BTreeSet<String> = rows
            .iter()
            .map(|row| {
                assert!(row.opcode == STAT && row.status == 0 && !row.value.is_empty(), "{row:?}");
                String::from_utf8(row.key.clone()).expect("the names of statistics are UTF-8")
            })
            .collect();
        assert_eq!(names.len(), rows.len(), "each statistic has a different name");
        assert_eq!(names, names_in_text(&mut text, &format!("stats {subject}")), "{subject}");
    }
}

#[test]
fn the_reply_to_stats_detail_dump_is_one_value_as_in_memcached() {
    let flags = ["-D", ":"];
    let mut servers = [under_test(), stock_memcached()]
        .map(|command| ConnectedServer::start(&command.with(&flags)));
    let [slabwise, memcached] = servers.each_mut().map(|server| {
        server.step(&store(SETQ, "a:k", b"value"));
        server.step(&keyed(0x00, "a:k"));
        server.step(&keyed(0x1c, "a:none").extras(&[0; 4]));
        server.step(&keyed(0x04, "a:none"));
        server.step(&keyed(STAT, "detail dump"))
    });
    assert_eq!(slabwise, memcached);
}

#[test]
fn text_and_binary_requests_share_counters() {
    let server = Server::start(&under_test());
    let mut text = server.connect();
    let mut binary = ConnectedServer::of(server);
    binary.step(&store(SETQ, "k", b"value"));
    binary.step(&keyed(0x00, "k"));
    binary.step(&keyed(0x09, "none"));
    assert_eq!(text.get("k").as_deref(), Some(&b"value"[..]));
    assert_eq!((text.stat("cmd_set"), text.stat("get_hits"), text.stat("get_misses")), (1, 2, 1));
}
