//! The hot keys of a server with clients.

use super::client::HttpServer;
use crate::support::wait_until;
use serde_json::Value;
use std::time::Duration;

/// The time after which the test fails.
const DEADLINE: Duration = Duration::from_secs(60);
/// A key that would run as a script if a page contained it as markup.
const SCRIPT: &str = "page:<script>alert(1)</script>";

fn document(http: &HttpServer) -> Value {
    let response = http.get("/api/v1/hot-keys");
    assert_eq!(response.status, 200, "{response:?}");
    serde_json::from_str(&response.body).expect("the document is JSON")
}

/// Sends rounds of gets until `is_done`: nine gets of `page:hot`, and one of [`SCRIPT`].
fn send_gets(http: &HttpServer, mut is_done: impl FnMut() -> bool) {
    let mut client = http.server.connect();
    let gets = format!("{}get {SCRIPT}\r\n", "get page:hot\r\n".repeat(9));
    wait_until("the server has sampled the gets", DEADLINE, || {
        for _ in 0..500 {
            client.send(gets.as_bytes());
            assert_eq!(client.read_exact(50), b"END\r\n".repeat(10));
        }
        is_done()
    });
}

#[test]
fn the_keys_with_the_most_gets_are_hot_with_their_shares() {
    let http = HttpServer::start(&["-t", "1"], "http_hot_keys=10");
    send_gets(&http, || document(&http)["samples"].as_u64() > Some(200));
    let document = document(&http);
    assert_eq!((&document["enabled"], &document["remedy"]), (&true.into(), &Value::Null));
    for (list, names) in [("keys", &["page:hot", SCRIPT][..]), ("prefixes", &["page"])] {
        let entries = document[list].as_array().expect("the document has both lists");
        let found: Vec<&Value> = entries.iter().map(|it| &it["name"]).collect();
        assert_eq!(found, names, "{document}");
    }
    let share = document["keys"][0]["get_share"].as_f64().expect("a share is a number");
    assert!((share - 0.9).abs() < 0.05, "{document}");
    assert_eq!(document["keys"][0]["get_share_error"], 0.0, "there are few keys");
    assert_eq!(document["prefixes"][0]["get_share"], 1.0);
}

#[test]
fn keys_are_not_sampled_by_default() {
    let http = HttpServer::start(&["-t", "1"], "");
    let mut turns = 0;
    send_gets(&http, || {
        turns += 1;
        turns > 3
    });
    let document = document(&http);
    assert_eq!((&document["enabled"], &document["samples"]), (&false.into(), &0.into()));
    assert!(document["remedy"].as_str().is_some_and(|it| it.contains("http_hot_keys=N")));
    for list in ["keys", "prefixes"] {
        assert_eq!(document[list].as_array().map(Vec::len), Some(0), "{document}");
    }
}
