//! UDP listeners: ports, address families, sockets, and addresses that are refused at the start.

use crate::support::{Server, as_user, directory, exit_of};
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Sends one command over UDP and returns the payload of the reply.
fn ask(address: SocketAddr, command: &[u8]) -> Vec<u8> {
    let any = if address.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(any).expect("a UDP socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a deadline");
    socket.send_to(&[b"\0\x01\0\0\0\x01\0\0", command].concat(), address).expect("a datagram");
    let mut buffer = [0; 2_000];
    let (len, from) = socket.recv_from(&mut buffer).expect("a reply");
    assert_eq!(from, address);
    assert_eq!(buffer[..8], *b"\0\x01\0\0\0\x01\0\0");
    buffer[8..len].to_vec()
}

/// Returns the ports of a kind in the port file.
fn ports(server: &Server, kind: &str) -> Vec<u16> {
    let text = std::fs::read_to_string(server.file("ports")).expect("a port file");
    let ports = text.lines().filter_map(|line| line.strip_prefix(kind));
    ports.map(|port| port.trim().parse().expect("a port")).collect()
}

#[test]
fn the_port_file_names_the_ports_of_udp() {
    let server = Server::start(&["-U", "-1"]);
    let [port] = ports(&server, "UDP INET:")[..] else { panic!("expected one UDP address") };
    assert_eq!(ask(([127, 0, 0, 1], port).into(), b"get nothing\r\n"), b"END\r\n");
    let server = Server::start(&[]);
    assert!(ports(&server, "UDP").is_empty(), "UDP is off by default");
}

#[test]
fn several_addresses_and_ipv6_have_one_udp_worker_each() {
    let server = Server::start(&["-U", "-1", "-l", "127.0.0.1,::1"]);
    let [port] = ports(&server, "UDP INET6:")[..] else { panic!("expected one IPv6 address") };
    assert_eq!(ask((Ipv6Addr::LOCALHOST, port).into(), b"get nothing\r\n"), b"END\r\n");
    let mut client = server.connect();
    client.send("stats conns\r\n");
    let conns = client.read_until_end();
    assert_eq!(conns.matches(":UDP UDP").count(), 2, "{conns}");
    assert!(conns.contains(&format!(":addr udp6:[::1]:{port}\r\n")), "{conns}");
    assert_eq!(client.stat("stats settings", "num_threads_per_udp"), "1");
}

#[test]
fn the_datagrams_of_every_client_are_answered() {
    let server = Server::start(&["-U", "-1", "-t", "4"]);
    let port = ports(&server, "UDP INET:")[0];
    for _ in 0..50 {
        assert_eq!(ask(([127, 0, 0, 1], port).into(), b"get nothing\r\n"), b"END\r\n");
    }
}

#[test]
fn a_server_may_listen_on_udp_only() {
    let directory = directory();
    let server = Server::start_with(directory, &["-p", "0", "-U", "-1", "-l", "127.0.0.1"]);
    assert!(ports(&server, "TCP").is_empty());
    let address = ([127, 0, 0, 1], server.port()).into();
    assert_eq!(ask(address, b"get nothing\r\n"), b"END\r\n");
}

#[test]
fn an_address_in_use_stops_the_start() {
    let server = Server::start(&["-U", "-1"]);
    let port = ports(&server, "UDP INET:")[0].to_string();
    // `port` is in use by another slabwise, and `others` by another program.
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a UDP socket");
    let others = taken.local_addr().expect("bound").port().to_string();
    for port in [port, others] {
        let args = ["-p", "-1", "-U", &port, "-l", "127.0.0.1"];
        assert!(
            !exit_of(&as_user(&args), &directory()).success(),
            "the server started on the used port {port}"
        );
    }
}
