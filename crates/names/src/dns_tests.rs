//! Tests of SRV records, with a name server of the test.

use super::{Dns, Service};
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData, Record};
use std::net::{Ipv4Addr, UdpSocket};

const NAME: &str = "_memcache._tcp.cache.example.com.";

/// Returns a resolver whose only name server knows these SRV records of [`NAME`]: priority, weight, port and host.
fn dns(records: &'static [(u16, u16, u16, &str)]) -> Dns {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let port = socket.local_addr().expect("the socket is bound").port();
    std::thread::spawn(move || answer(&socket, records));
    let mut connection = ConnectionConfig::udp();
    connection.port = port;
    let server = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, vec![connection]);
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    Dns::new(Some(config)).expect("the configuration is valid")
}

/// Answers queries until the test ends.
fn answer(socket: &UdpSocket, records: &[(u16, u16, u16, &str)]) {
    let mut buffer = [0; 1_500];
    while let Ok((len, client)) = socket.recv_from(&mut buffer) {
        let query = Message::from_vec(&buffer[..len]).expect("the resolver sends a message");
        let mut reply = Message::response(query.metadata.id, query.metadata.op_code);
        reply.metadata.message_type = MessageType::Response;
        reply.metadata.recursion_available = true;
        reply.queries = query.queries.clone();
        let is_known = query.queries.iter().any(|query| query.name().to_utf8() == NAME);
        if is_known {
            reply.answers = records
                .iter()
                .map(|&(priority, weight, port, host)| {
                    let host = Name::from_utf8(host).expect("the host is a name");
                    let name = Name::from_utf8(NAME).expect("NAME is a name");
                    let data = RData::SRV(SRV::new(priority, weight, port, host));
                    Record::from_rdata(name, 60, data)
                })
                .collect();
        } else {
            reply.metadata.response_code = ResponseCode::NXDomain;
        }
        let bytes = reply.to_vec().expect("the reply is valid");
        socket.send_to(&bytes, client).expect("the resolver waits for the reply");
    }
}

#[test]
fn services_are_sorted_by_priority_and_weight() {
    let records: &[_] = &[
        (20, 0, 11_211, "c.example.com."),
        (10, 5, 11_311, "b.example.com."),
        (10, 60, 11_211, "a.example.com."),
    ];
    let found = dns(records).services(NAME).expect("the name server answers");
    let service = |host: &str, port| Service { host: format!("{host}.example.com"), port };
    assert_eq!(found, [service("a", 11_211), service("b", 11_311), service("c", 11_211)]);
}

#[test]
fn a_name_without_the_service_has_no_host_and_an_unknown_name_is_an_error() {
    let dns = dns(&[(0, 0, 0, ".")]);
    assert_eq!(dns.services(NAME).expect("the name server answers"), []);
    let error = dns.services("_memcache._tcp.unknown.example.com.").expect_err("an unknown name");
    assert!(
        error.to_string().contains("cannot resolve the name '_memcache._tcp.unknown"),
        "{error}"
    );
}
