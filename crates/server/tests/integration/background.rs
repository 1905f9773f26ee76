//! Commands that use the background threads.

use crate::support::{Server, wait_until};

#[test]
fn slabs_reassign_moves_a_page() {
    let server = Server::start(&["-m", "64", "-o", "preset=memcached,slab_automove=0"]);
    let mut client = server.connect();
    for number in 0..60_000 {
        client.send(format!("set key{number} 0 0 20 noreply\r\n01234567890123456789\r\n"));
    }
    client.ask("get none\r\n", "END\r\n");
    let slabs =
        |client: &mut crate::support::Client<_>, name: &str| client.stat("stats slabs", name);
    assert!(slabs(&mut client, "1:total_pages").parse::<u32>().expect("a number") > 3);
    for moved in 1..4 {
        client.ask("slabs reassign 1 5\r\n", "OK\r\n");
        wait_until("a page has moved", || client.stat("stats", "slabs_moved") == moved.to_string());
    }
    assert_eq!(slabs(&mut client, "5:total_pages"), "3");
}

#[test]
fn lru_crawler_crawl_runs_after_the_crawler_is_enabled() {
    let server = Server::start(&["-o", "no_lru_crawler,lru_crawler_sleep=1000"]);
    let mut client = server.connect();
    client.ask("lru_crawler crawl all\r\n", "CLIENT_ERROR lru crawler disabled\r\n");
    client.ask("lru_crawler enable\r\n", "OK\r\n");
    for number in 0..5_000 {
        client.send(format!("set key{number} 0 -1 1 noreply\r\nx\r\n"));
    }
    client.ask("lru_crawler crawl all\r\n", "OK\r\n");
    wait_until("the expired items are removed", || client.stat("stats", "curr_items") == "0");
    client.ask("lru_crawler disable\r\n", "OK\r\n");
    client.ask("lru_crawler crawl all\r\n", "CLIENT_ERROR lru crawler disabled\r\n");
}

#[test]
fn an_idle_server_wakes_rarely() {
    let server = Server::start(&["-t", "2"]);
    let mut client = server.connect();
    client.ask("get none\r\n", "END\r\n");
    let juggles = |client: &mut crate::support::Client<_>| {
        client.stat("stats", "lru_maintainer_juggles").parse::<u32>().expect("a number")
    };
    let uptime = |client: &mut crate::support::Client<_>| {
        client.stat("stats", "uptime").parse::<u32>().expect("a number")
    };
    wait_until("four seconds have passed", || uptime(&mut client) >= 4);
    // The maintainer's wait doubles from a millisecond to a second in ten steps.
    assert!(juggles(&mut client) <= 16, "{} steps in four idle seconds", juggles(&mut client));
}
