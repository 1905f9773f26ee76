//! Parses `-l`: the addresses on which the server listens, separated by commas or semicolons. An address has this form:
//!
//! ```text
//!   [notls:|btls:|mtls:] [proto[NAME]:] [tag[NAME]:|tag_NAME_:] host | host:port | [IPv6]:port | IPv6 | *
//! ```
//!
//! As in memcached, the prefixes must have this order. A valid tag has no effect, because only memcached's proxy uses
//! tags.

use super::settings::{ListenAddress, ListenSecurity, Protocol};
use crate::tls::ClientCertificates;

/// Parses all values of `-l`. Returns the addresses and the warnings. An address that leaves out its port, security or
/// protocol has those of `default`.
pub(super) fn parse_list(
    lists: &[String],
    default: &ListenAddress,
) -> Result<(Vec<ListenAddress>, Vec<String>), String> {
    let (mut addresses, mut warnings) = (Vec::new(), Vec::new());
    let elements = lists.iter().flat_map(|list| list.split([',', ';'])).map(str::trim);
    for element in elements.filter(|element| !element.is_empty()) {
        let (address, tag) =
            parse(element, default).map_err(|reason| format!("-l {element}: {reason}"))?;
        if tag.is_some() {
            warnings.push(format!("-l {element}: the tag has no effect, as slabwise has no proxy"));
        }
        // As in memcached, an address that is given twice has one socket.
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok((addresses, warnings))
}

/// Parses one address. Returns the address and its tag.
fn parse<'e>(
    element: &'e str,
    default: &ListenAddress,
) -> Result<(ListenAddress, Option<&'e str>), String> {
    let (security, rest) = security(element, default.security)?;
    let (protocol, rest) = protocol(rest, default.protocol)?;
    let (tag, address) = tag(rest)?;
    let (host, port) = split_port(address)?;
    let port = match port.map(|text| (text, text.parse::<i32>())) {
        None => default.port,
        Some((_, Ok(-1))) => 0,
        Some((text, number)) => {
            number.ok().and_then(|number| u16::try_from(number).ok()).ok_or_else(|| {
                format!(
                    "'{text}' is not a port: give a number from 0 to 65535, or -1 for any free port"
                )
            })?
        }
    };
    let host = (host != "*" && !host.is_empty()).then(|| host.to_owned());
    Ok((ListenAddress { host, port, security, protocol }, tag))
}

/// Splits `host[:port]` into the host and the text of the port.
fn split_port(address: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(rest) = address.strip_prefix('[') {
        let (host, suffix) =
            rest.split_once(']').ok_or("an IPv6 address that begins with '[' must end with ']'")?;
        if suffix.is_empty() {
            return Ok((host, None));
        }
        let port = suffix.strip_prefix(':');
        let port = port.ok_or_else(|| {
            format!("after the IPv6 address '{suffix}' is not ':port': give [IPv6]:port")
        })?;
        return Ok((host, Some(port)));
    }
    match address.split_once(':') {
        // An address with two colons and without brackets is an IPv6 address without a port.
        Some((_, rest)) if rest.contains(':') => Ok((address, None)),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((address, None)),
    }
}

/// Removes the prefix `notls:`, `btls:` or `mtls:`. Returns the security of the listener and the rest of the address.
fn security(element: &str, default: ListenSecurity) -> Result<(ListenSecurity, &str), String> {
    let prefixes = [
        ("notls:", ListenSecurity::Plain),
        ("btls:", ListenSecurity::Tls(ClientCertificates::Ignored)),
        ("mtls:", ListenSecurity::Tls(ClientCertificates::Required)),
    ];
    for (prefix, security) in prefixes {
        if let Some(rest) = element.strip_prefix(prefix) {
            if default == ListenSecurity::Plain {
                return Err(format!("'{prefix}' is valid only with TLS: add -Z, or leave it out"));
            }
            return Ok((security, rest));
        }
    }
    Ok((default, element))
}

/// Removes the prefix `proto[NAME]:`. Returns the protocol of the listener and the rest of the address.
fn protocol(element: &str, default: Protocol) -> Result<(Protocol, &str), String> {
    let Some(rest) = element.strip_prefix("proto[") else { return Ok((default, element)) };
    let (name, rest) = rest.split_once("]:").ok_or("the prefix 'proto[' must end with ']:'")?;
    let protocol = match name {
        "ascii" => Protocol::Ascii,
        "binary" => Protocol::Binary,
        "negotiating" => Protocol::Auto,
        "proxy" => {
            return Err(
                "slabwise has no proxy: give proto[ascii], proto[binary] or proto[negotiating]"
                    .to_owned(),
            );
        }
        _ => {
            return Err(format!("'{name}' is not a protocol: give ascii, binary or negotiating"));
        }
    };
    Ok((protocol, rest))
}

/// Removes the prefix `tag[NAME]:` or `tag_NAME_:`. Returns the tag and the rest of the address.
fn tag(element: &str) -> Result<(Option<&str>, &str), String> {
    for (open, close) in [("tag[", "]:"), ("tag_", "_:")] {
        if let Some(rest) = element.strip_prefix(open) {
            let (tag, rest) =
                rest.split_once(close).ok_or_else(|| format!("the tag must end with '{close}'"))?;
            if tag.is_empty() || tag.len() > TAG_LEN_MAX {
                return Err(format!("the tag '{tag}' must have 1 to {TAG_LEN_MAX} characters"));
            }
            return Ok((Some(tag), rest));
        }
    }
    Ok((None, element))
}

/// The maximum length of a tag in bytes, as in memcached.
const TAG_LEN_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::{ListenAddress, ListenSecurity, Protocol, parse_list};
    use crate::tls::ClientCertificates;

    const PLAIN: ListenAddress = ListenAddress {
        host: None,
        port: 11211,
        security: ListenSecurity::Plain,
        protocol: Protocol::Auto,
    };
    const WITH_TLS: ListenAddress =
        ListenAddress { security: ListenSecurity::Tls(ClientCertificates::Optional), ..PLAIN };

    fn parsed(text: &str, default: ListenAddress) -> Vec<ListenAddress> {
        parse_list(&[text.to_owned()], &default).expect("the address is valid").0
    }

    fn address(host: &str, port: u16) -> ListenAddress {
        ListenAddress { host: Some(host.to_owned()), port, ..PLAIN }
    }

    #[test]
    fn parses_every_form_of_address() {
        let parsed = |text| parsed(text, PLAIN);
        assert_eq!(parsed("127.0.0.1"), [address("127.0.0.1", 11211)]);
        assert_eq!(parsed("localhost:1"), [address("localhost", 1)]);
        assert_eq!(parsed("[::1]:2"), [address("::1", 2)]);
        assert_eq!(parsed("[::1]"), [address("::1", 11211)]);
        assert_eq!(parsed("::1"), [address("::1", 11211)]);
        assert_eq!(parsed("*"), [ListenAddress { host: None, ..address("", 11211) }]);
        assert_eq!(parsed("a:1,b;c:3"), [address("a", 1), address("b", 11211), address("c", 3)]);
        assert_eq!(parsed("a:1,a:1"), [address("a", 1)]);
        assert_eq!(parsed("tag_web_:[::1]:5"), [address("::1", 5)]);
        assert_eq!(parsed("127.0.0.1:-1"), [address("127.0.0.1", 0)]);
    }

    #[test]
    fn the_prefix_proto_sets_the_protocol_of_a_listener() {
        let parsed = |text| parsed(text, ListenAddress { protocol: Protocol::Ascii, ..PLAIN });
        let expected = |protocol| [ListenAddress { protocol, ..address("10.0.0.1", 5) }];
        assert_eq!(parsed("10.0.0.1:5"), expected(Protocol::Ascii));
        assert_eq!(parsed("proto[binary]:tag[web]:10.0.0.1:5"), expected(Protocol::Binary));
        assert_eq!(parsed("proto[negotiating]:10.0.0.1:5"), expected(Protocol::Auto));
        assert_eq!(parsed("proto[ascii]:tag_12345678_:10.0.0.1:5"), expected(Protocol::Ascii));
    }

    #[test]
    fn the_prefixes_notls_btls_and_mtls_set_the_security_of_a_listener() {
        let parsed = |text| parsed(text, WITH_TLS)[0].security;
        assert_eq!(parsed("a:1"), WITH_TLS.security);
        assert_eq!(parsed("notls:a:1"), ListenSecurity::Plain);
        assert_eq!(parsed("btls:a:1"), ListenSecurity::Tls(ClientCertificates::Ignored));
        assert_eq!(
            parsed("mtls:proto[ascii]:tag_tools_:127.0.0.1:1"),
            ListenSecurity::Tls(ClientCertificates::Required)
        );
    }

    #[test]
    fn an_error_contains_the_invalid_address() {
        for text in [
            "a:x",
            "a:70000",
            "[::1",
            "[::1]5",
            "notls:a",
            "btls:a",
            "mtls:a",
            "proto[x]:a",
            "proto[proxy]:a",
            "proto[ascii]a",
            "tag[]:a",
            "tag[123456789]:a",
            "tag_web:a",
        ] {
            let error = parse_list(&[text.to_owned()], &PLAIN).expect_err(text);
            assert!(error.contains(text), "the error is: {error}");
        }
    }
}
