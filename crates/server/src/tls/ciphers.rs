//! Parses `-o ssl_ciphers`, which has OpenSSL's format for lists of cipher suites.
//!
//! As in OpenSSL, the list selects suites of TLS 1.2, and the suites of TLS 1.3 are always enabled. The elements of a
//! list are separated by colons, commas or spaces. An element is the name of a suite, or one or more keywords joined by
//! `+`, and adds the suites that match all its keywords. An element that begins with `!` or `-` removes suites. Suites
//! that slabwise does not support (RC4, CBC, static RSA) are ignored.

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite;

/// OpenSSL's name of a TLS 1.2 suite, and the suite.
type Suite = (&'static str, SupportedCipherSuite);

static SUITES: [Suite; 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Keywords that match every supported suite.
const COMMON_KEYWORDS: &[&str] =
    &["ALL", "DEFAULT", "COMPLEMENTOFDEFAULT", "HIGH", "TLSv1.2", "EECDH", "kECDHE", "kEECDH"];

/// True if the suite with OpenSSL's name `name` matches all keywords of `element`.
fn matches(name: &str, element: &str) -> bool {
    element.split('+').all(|keyword| matches_keyword(name, keyword))
}

/// True if the suite with OpenSSL's name `name` matches the keyword: its full name, a part of its name, or an alias.
fn matches_keyword(name: &str, keyword: &str) -> bool {
    let has_part = |keyword| name.split('-').any(|part| part == keyword);
    let is_alias = match keyword {
        "aECDSA" => has_part("ECDSA"),
        "aRSA" => has_part("RSA"),
        "AES" | "AESGCM" => name.contains("AES"),
        "SHA256" => has_part("CHACHA20"),
        _ => COMMON_KEYWORDS.contains(&keyword),
    };
    name == keyword || has_part(keyword) || is_alias
}

/// Returns the TLS 1.2 suites that a list selects, in the order of the list, which is the server's order of preference.
/// Returns an error if the list selects no suite.
pub(super) fn select(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut chosen: Vec<&Suite> = Vec::new();
    for element in list.split([':', ',', ' ']).filter(|element| !element.is_empty()) {
        if let Some(unwanted) = element.strip_prefix(['!', '-']) {
            chosen.retain(|(name, _)| !matches(name, unwanted));
        } else if element.starts_with(['@', '+']) {
            // In OpenSSL, elements that begin with `@` or `+` change the order of the chosen suites. slabwise ignores
            // these elements, because the order does not affect security: every supported suite is strong.
        } else {
            for suite in SUITES.iter().filter(|(name, _)| matches(name, element)) {
                if !chosen.contains(&suite) {
                    chosen.push(suite);
                }
            }
        }
    }
    // A suite that an element with `!` removes stays removed, even if a later element adds it again.
    let forbidden: Vec<&str> =
        list.split([':', ',', ' ']).filter_map(|element| element.strip_prefix('!')).collect();
    chosen.retain(|(name, _)| !forbidden.iter().any(|element| matches(name, element)));
    if chosen.is_empty() {
        let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "'{list}' selects no TLS 1.2 cipher suite: choose from {} (TLS 1.3 suites are always \
             enabled)",
            names.join(":")
        ));
    }
    Ok(chosen.iter().map(|(_, suite)| *suite).collect())
}

#[cfg(test)]
mod tests {
    use super::{SUITES, select};

    fn names(list: &str) -> Vec<&'static str> {
        let chosen = select(list)
            .unwrap_or_else(|error| panic!("the list '{list}' must select a suite: {error}"));
        let name =
            |suite| SUITES.iter().find(|row| row.1 == suite).expect("`SUITES` has every suite").0;
        chosen.into_iter().map(name).collect()
    }

    #[test]
    fn a_list_selects_the_suites_that_it_selects_in_openssl() {
        assert_eq!(names("ECDHE-RSA-AES128-GCM-SHA256"), ["ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(names("HIGH:!aNULL:!MD5:!RC4").len(), 6);
        assert_eq!(names("ALL:!ECDSA:-CHACHA20").len(), 2);
        assert_eq!(
            names("CHACHA20:ECDHE+AESGCM:!aECDSA:@STRENGTH"),
            [
                "ECDHE-RSA-CHACHA20-POLY1305",
                "ECDHE-RSA-AES256-GCM-SHA384",
                "ECDHE-RSA-AES128-GCM-SHA256"
            ]
        );
        assert_eq!(
            names("AES128-SHA:RC4-SHA:ECDHE-RSA-AES128-GCM-SHA256"),
            ["ECDHE-RSA-AES128-GCM-SHA256"]
        );
        assert_eq!(names("!AES256:ALL").len(), 4);
    }

    #[test]
    fn a_list_that_selects_no_suite_is_an_error_that_names_the_supported_suites() {
        for list in ["", "RC4-SHA", "ALL:!ECDHE"] {
            let reason = select(list).expect_err(list);
            assert!(reason.contains("ECDHE-RSA-AES128-GCM-SHA256"), "the error is: {reason}");
        }
    }
}
