//! TLS on IPv6 addresses, and listeners with different security.

use super::fixture::{Fixture, ReservedAddress, VERSIONS};
use crate::support::Client;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IP_ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

#[test]
fn each_listener_has_its_own_security_with_both_versions_of_ip() {
    let reserved: Vec<[ReservedAddress; 4]> =
        IP_ADDRESSES.map(|ip| [ip; 4].map(ReservedAddress::of)).into();
    let listeners: Vec<String> = reserved
        .iter()
        .flat_map(|addresses| ["", "btls:", "mtls:", "notls:"].iter().zip(addresses))
        .map(|(prefix, reserved)| format!("{prefix}{}", reserved.address))
        .collect();
    let mut fixture = Fixture::start(&["-l", &listeners.join(","), "-o", "ssl_verify_mode=1"]);
    let stranger = crate::support::certificates::Authority::new("others").client();
    for [default, basic, mutual, plain] in &reserved {
        // The options are: no certificate, a certificate of the authority, a certificate of another authority.
        for (reserved, expected) in [
            (default, [true, true, false]),
            (basic, [true, true, true]),
            (mutual, [false, true, false]),
        ] {
            fixture.address = reserved.address;
            let trusted = fixture.authority.client();
            let accepted = [None, Some(&trusted), Some(&stranger)].map(|it| fixture.accepts(it));
            assert_eq!(accepted, expected, "{}", reserved.address);
        }
        let mut client = Client::connect(plain.address);
        assert_eq!(client.set("key", b"value"), "STORED");
        fixture.address = plain.address;
        assert!(!fixture.accepts(None), "the listener {} has no TLS", plain.address);
    }
}

#[test]
fn connections_over_ipv6_have_their_addresses_in_stats_and_watch() {
    let reserved = ReservedAddress::of(Ipv6Addr::LOCALHOST.into());
    let mut fixture = Fixture::start(&["-t", "1", "-l", &reserved.address.to_string()]);
    fixture.address = reserved.address;
    let mut watcher = fixture.connect_plain();
    assert_eq!(watcher.ask("watch connevents"), "OK");
    let mut client = fixture.connect(VERSIONS[1]);
    client.send("stats conns\r\n");
    let conns = client.read_until_end();
    let listen_address = format!(":listen_addr tcp6:{}\r\n", reserved.address);
    assert!(conns.contains(&listen_address), "{conns}");
    assert!(conns.contains(":addr tcp6:[::1]:"), "{conns}");
    drop(client);
    for event in ["type=conn_new ", "type=conn_close "] {
        let mut line = String::new();
        while !line.contains(event) {
            line = watcher.read_line();
        }
        assert!(line.contains(" rip=::1 ") && line.contains(" transport=tcp "), "{line}");
    }
}
