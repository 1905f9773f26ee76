//! `-o ssl_ciphers`: OpenSSL's lists of cipher suites, over the suites that there are.
//!
//! As in OpenSSL, the list is about TLS 1.2; the suites of TLS 1.3 are always on. A list is elements
//! between colons, each a suite's name or words joined by `+` that a suite must all have. `!` and `-`
//! take suites away. Whatever names only suites that are not here (RC4, CBC, static RSA) adds nothing.

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite;

/// A suite of TLS 1.2 with OpenSSL's name for it.
type Suite = (&'static str, SupportedCipherSuite);

static SUITES: [Suite; 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Words that every suite here has.
const COMMON_WORDS: &[&str] =
    &["ALL", "DEFAULT", "COMPLEMENTOFDEFAULT", "HIGH", "TLSv1.2", "EECDH", "kECDHE", "kEECDH"];

/// Whether a suite of this name has all words of an element.
fn fits(name: &str, element: &str) -> bool {
    element.split('+').all(|word| has(name, word))
}

fn has(name: &str, word: &str) -> bool {
    let has_part = |word| name.split('-').any(|part| part == word);
    let by_meaning = match word {
        "aECDSA" => has_part("ECDSA"),
        "aRSA" => has_part("RSA"),
        "AES" | "AESGCM" => name.contains("AES"),
        "SHA256" => has_part("CHACHA20"),
        _ => COMMON_WORDS.contains(&word),
    };
    name == word || has_part(word) || by_meaning
}

/// The suites of TLS 1.2 that a list leaves, in the list's order of preference; an error if none.
pub(super) fn select(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut chosen: Vec<&Suite> = Vec::new();
    for element in list.split([':', ',', ' ']).filter(|element| !element.is_empty()) {
        if let Some(unwanted) = element.strip_prefix(['!', '-']) {
            chosen.retain(|(name, _)| !fits(name, unwanted));
        } else if element.starts_with(['@', '+']) {
            // Orders what is there already; every suite here is strong.
        } else {
            for suite in SUITES.iter().filter(|(name, _)| fits(name, element)) {
                if !chosen.contains(&suite) {
                    chosen.push(suite);
                }
            }
        }
    }
    // `!` forbids a suite wherever it stands.
    let forbidden: Vec<&str> =
        list.split([':', ',', ' ']).filter_map(|element| element.strip_prefix('!')).collect();
    chosen.retain(|(name, _)| !forbidden.iter().any(|element| fits(name, element)));
    if chosen.is_empty() {
        let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "'{list}' leaves no cipher suite: choose from {} (those of TLS 1.3 are always on)",
            names.join(":")
        ));
    }
    Ok(chosen.iter().map(|(_, suite)| *suite).collect())
}

#[cfg(test)]
mod tests {
    use super::{SUITES, select};

    fn names(list: &str) -> Vec<&'static str> {
        let chosen = select(list).expect(list);
        let name = |suite| SUITES.iter().find(|row| row.1 == suite).expect("a row").0;
        chosen.into_iter().map(name).collect()
    }

    #[test]
    fn lists_are_read_as_openssl_reads_them() {
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
        // What is not here adds nothing, and hurts nothing.
        assert_eq!(
            names("AES128-SHA:RC4-SHA:ECDHE-RSA-AES128-GCM-SHA256"),
            ["ECDHE-RSA-AES128-GCM-SHA256"]
        );
        assert_eq!(names("!AES256:ALL").len(), 4);
    }

    #[test]
    fn a_list_that_leaves_nothing_is_refused_with_what_there_is() {
        for list in ["", "RC4-SHA", "ALL:!ECDHE"] {
            let reason = select(list).expect_err(list);
            assert!(reason.contains("ECDHE-RSA-AES128-GCM-SHA256"), "{reason}");
        }
    }
}
