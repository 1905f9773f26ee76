//! Socket activation: the server serves the sockets that the service manager has opened.

use super::manager::{Manager, assert_serves, user};
use crate::support::Client;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

fn tcp() -> (TcpListener, OwnedFd) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let passed = socket.try_clone().expect("a descriptor is free");
    (socket, passed.into())
}

#[test]
fn the_server_serves_the_passed_sockets_and_opens_none() {
    let manager = Manager::new();
    let (socket, passed) = tcp();
    let path = manager.path("socket");
    let unix = UnixListener::bind(&path).expect("the folder is writable");
    // No server can listen on this address: it belongs to a network for documentation.
    let arguments = [&["-l", "192.0.2.1", "-v"], user()].concat();
    let mut service = manager.start(&arguments, vec![passed, unix.into()]);
    manager.wait_until_ready();
    assert_serves(socket.local_addr().expect("the socket is bound"));
    let mut stream = UnixStream::connect(&path).expect("the server listens");
    stream.write_all(b"get key\r\nquit\r\n").expect("the server is connected");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("the reply is text");
    assert_eq!(reply, "VALUE key 0 5\r\nvalue\r\nEND\r\n");
    assert!(manager.log().contains("passed 2 sockets: -l, -p, -s and -U have no effect"));
    service.signal(Signal::TERM);
    assert!(service.wait().success());
    assert!(path.exists(), "the service manager removes the file of its socket");
}

#[test]
fn clients_that_connect_between_two_servers_are_served_by_the_second() {
    let manager = Manager::new();
    let (socket, first) = tcp();
    let second = first.try_clone().expect("a descriptor is free");
    let address = socket.local_addr().expect("the socket is bound");
    let mut service = manager.start(user(), vec![first]);
    manager.wait_until_ready();
    assert_serves(address);
    service.signal(Signal::TERM);
    assert_eq!(manager.notification()[0], "STOPPING=1");
    assert!(service.wait().success());

    let mut client = Client::connect(address);
    client.send(b"version\r\n");
    let _service = manager.start(user(), vec![second]);
    assert!(client.read_line().starts_with("VERSION "));
}

#[test]
fn a_passed_datagram_socket_serves_udp() {
    let manager = Manager::new();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let address = socket.local_addr().expect("the socket is bound");
    let _service = manager.start(user(), vec![socket.into()]);
    manager.wait_until_ready();
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    client.set_read_timeout(Some(super::manager::TIMEOUT)).expect("the timeout is not zero");
    // The header: request id, number of the datagram, number of datagrams, reserved.
    client.send_to(b"\x00\x07\x00\x00\x00\x01\x00\x00get key\r\n", address).expect("it is sent");
    let mut reply = [0; 64];
    let count = client.recv(&mut reply).expect("the server replies");
    assert_eq!(&reply[..count], b"\x00\x07\x00\x00\x00\x01\x00\x00END\r\n");
}

#[test]
fn a_descriptor_that_does_not_listen_is_refused() {
    let manager = Manager::new();
    let (one, _other) = UnixStream::pair().expect("the system has Unix sockets");
    let mut service = manager.start(user(), vec![one.into()]);
    assert_eq!(service.wait().code(), Some(1));
    let log = manager.log();
    assert!(log.contains("LISTEN_FDS=1: a descriptor is not a listening"), "{log}");
    assert!(log.contains("Accept=no"), "{log}");
}
