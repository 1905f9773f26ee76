//! `-l`: `host`, `host:port`, `[IPv6]:port`, bare IPv6, `*`; before it memcached's `proto[name]:` and
//! `tag[name]:`. Several are separated by commas or semicolons.

use super::OptionsError;
use crate::settings::ListenAddress;

/// The places that one or more `-l` name; `port` is the one of `-p`. What has no effect goes to `warn`.
pub(super) fn parse_list(
    lists: &[String],
    port: u16,
    warn: &mut dyn FnMut(String),
) -> Result<Vec<ListenAddress>, OptionsError> {
    let mut addresses = Vec::new();
    for element in lists.iter().flat_map(|list| list.split([',', ';'])) {
        let element = element.trim();
        if element.is_empty() {
            continue;
        }
        let address = parse(element, port, warn)
            .map_err(|reason| OptionsError(format!("-l {element}: {reason}")))?;
        // memcached, too, listens once where a place is named twice.
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

fn parse(element: &str, port: u16, warn: &mut dyn FnMut(String)) -> Result<ListenAddress, String> {
    let place = strip_prefixes(element, warn)?;
    let (host, port_text) = split(place)?;
    let port = match port_text {
        None => port,
        Some(text) => match text.parse::<i32>() {
            Ok(-1) => 0,
            Ok(number) => u16::try_from(number).map_err(|_| bad_port(text))?,
            Err(_) => return Err(bad_port(text)),
        },
    };
    let host = (host != "*" && !host.is_empty()).then(|| host.to_owned());
    Ok(ListenAddress { host, port })
}

fn bad_port(text: &str) -> String {
    format!("'{text}' is no port: give a number from 0 to 65535")
}

/// Host, and the text of the port if there is one.
fn split(place: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, behind) =
            rest.split_once(']').ok_or("an IPv6 address that begins with '[' must end with ']'")?;
        return match behind {
            "" => Ok((host, None)),
            _ => match behind.strip_prefix(':') {
                Some(port) => Ok((host, Some(port))),
                None => Err(format!("'{behind}' behind the address is no ':port'")),
            },
        };
    }
    match place.split_once(':') {
        // Two colons without brackets: a bare IPv6 address.
        Some((_, behind)) if behind.contains(':') => Ok((place, None)),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((place, None)),
    }
}

/// Takes off what memcached lets stand before an address.
fn strip_prefixes<'a>(element: &'a str, warn: &mut dyn FnMut(String)) -> Result<&'a str, String> {
    if ["notls:", "btls:", "mtls:"].iter().any(|prefix| element.starts_with(prefix)) {
        return Err("TLS is not built yet: name the address without it".to_owned());
    }
    let mut place = element;
    if let Some(rest) = place.strip_prefix("proto[") {
        let (protocol, behind) =
            rest.split_once("]:").ok_or("proto[...] needs a ']:' behind it")?;
        match protocol {
            "ascii" | "negotiating" => {}
            "binary" => return Err("the binary protocol is not spoken yet".to_owned()),
            "proxy" => return Err("the proxy is not built".to_owned()),
            _ => return Err(format!("'{protocol}' is no protocol: say ascii or negotiating")),
        }
        place = behind;
    }
    for (open, close) in [("tag[", "]:"), ("tag_", "_:")] {
        if let Some(rest) = place.strip_prefix(open) {
            let (tag, behind) = rest.split_once(close).ok_or("the tag does not end")?;
            if tag.is_empty() || tag.len() > 8 {
                return Err(format!("the tag '{tag}' must have 1 to 8 characters"));
            }
            warn(format!("-l {element}: the tag has no effect, as there is no proxy"));
            place = behind;
        }
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::{ListenAddress, parse_list};

    fn parsed(text: &str) -> Vec<ListenAddress> {
        parse_list(&[text.to_owned()], 11211, &mut |_| {}).expect("it is right")
    }

    fn address(host: &str, port: u16) -> ListenAddress {
        ListenAddress { host: Some(host.to_owned()), port }
    }

    #[test]
    fn every_form_is_understood() {
        assert_eq!(parsed("127.0.0.1"), [address("127.0.0.1", 11211)]);
        assert_eq!(parsed("localhost:1"), [address("localhost", 1)]);
        assert_eq!(parsed("[::1]:2"), [address("::1", 2)]);
        assert_eq!(parsed("[::1]"), [address("::1", 11211)]);
        assert_eq!(parsed("::1"), [address("::1", 11211)]);
        assert_eq!(parsed("*"), [ListenAddress { host: None, port: 11211 }]);
        assert_eq!(parsed("a:1,b;c:3"), [address("a", 1), address("b", 11211), address("c", 3)]);
        assert_eq!(parsed("a:1,a:1"), [address("a", 1)]);
        assert_eq!(parsed("proto[ascii]:tag[web]:10.0.0.1:5"), [address("10.0.0.1", 5)]);
        assert_eq!(parsed("tag_web_:[::1]:5"), [address("::1", 5)]);
        assert_eq!(parsed("127.0.0.1:-1"), [address("127.0.0.1", 0)]);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for text in ["a:x", "a:70000", "[::1", "[::1]5", "notls:a", "proto[binary]:a", "proto[x]:a"]
        {
            let refused = parse_list(&[text.to_owned()], 1, &mut |_| {}).expect_err(text);
            assert!(refused.to_string().contains(text), "{refused}");
        }
    }
}
