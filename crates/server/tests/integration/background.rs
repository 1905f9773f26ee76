//! What commands ask of the threads in the background.

use crate::support::{Server, wait_until};

#[test]
fn pages_move_when_a_command_asks_for_it() {
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
        wait_until("the page has moved", || {
            client.stat("stats", "slabs_moved") == moved.to_string()
        });
    }
    assert_eq!(slabs(&mut client, "5:total_pages"), "3");
}

#[test]
fn crawls_run_when_a_command_asks_for_it_also_when_they_were_off() {
    let server = Server::start(&["-o", "no_lru_crawler,lru_crawler_sleep=1000"]);
    let mut client = server.connect();
    client.ask("lru_crawler crawl all\r\n", "CLIENT_ERROR lru crawler disabled\r\n");
    client.ask("lru_crawler enable\r\n", "OK\r\n");
    for number in 0..5_000 {
        client.send(format!("set key{number} 0 -1 1 noreply\r\nx\r\n"));
    }
    client.ask("lru_crawler crawl all\r\n", "OK\r\n");
    wait_until("the ended items are gone", || client.stat("stats", "curr_items") == "0");
    client.ask("lru_crawler disable\r\n", "OK\r\n");
    client.ask("lru_crawler crawl all\r\n", "CLIENT_ERROR lru crawler disabled\r\n");
}

#[test]
fn an_idle_server_hardly_wakes() {
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
    // Doubling from a millisecond to a second takes ten steps.
    assert!(juggles(&mut client) <= 16, "{} steps in four idle seconds", juggles(&mut client));
}
