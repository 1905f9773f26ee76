//! The documents of the server have the names that the documentation describes.

use super::client::HttpServer;
use serde_json::Value;
use std::collections::BTreeSet;

const METRICS: &str = include_str!("../../docs/metrics.md");
const API: &str = include_str!("../../docs/http-api.md");

#[test]
fn every_metric_is_documented() {
    let http = HttpServer::start(&["-m", "16"], "");
    assert_eq!(http.server.connect().set("key", b"value"), "STORED");
    let metrics = http.metrics();
    let names = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        names.partition(|name| METRICS.contains(&format!("`{name}`")));
    assert!(known.len() > 60, "the server has its metrics: {known:?}");
    assert_eq!(unknown, Vec::<&str>::new(), "docs/metrics.md describes each metric");
}

#[test]
fn every_field_of_the_api_is_documented() {
    let http = HttpServer::start(&["-m", "16"], "");
    assert_eq!(http.server.connect().set("key", b"value"), "STORED");
    let mut names = BTreeSet::new();
    for document in [
        "overview", "history", "classes", "pages", "what-if", "plans", "sizes", "memory",
        "hot-keys",
    ] {
        let response = http.get(&format!("/api/v1/{document}"));
        assert_eq!(response.status, 200, "{document}: {response:?}");
        collect(&serde_json::from_str(&response.body).expect("the document is JSON"), &mut names);
    }
    let is_unknown =
        |name: &&String| !API.contains(&format!("`{name}`")) && !API.contains(&format!(".{name}`"));
    let unknown: Vec<&String> = names.iter().filter(is_unknown).collect();
    assert!(names.len() > 50, "the documents have their fields: {names:?}");
    assert_eq!(unknown, Vec::<&String>::new(), "docs/http-api.md describes each field");
}

/// Adds the names of all fields of a document.
fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            names.insert(name.clone());
            collect(value, names);
        }),
        Value::Array(values) => values.iter().for_each(|value| collect(value, names)),
        _ => {}
    }
}

#[test]
fn the_memory_model_follows_the_memory_limit() {
    let http = HttpServer::start(&["-m", "16"], "");
    let mut client = http.server.connect();
    let items = |metrics: &str| {
        let mut lines = metrics.lines();
        let value = lines
            .find_map(|line| line.strip_prefix("slabwise_memory_model_bytes{part=\"items\"} "));
        value.and_then(|value| value.parse::<u64>().ok()).expect("the metric has a value")
    };
    assert_eq!(items(&http.metrics()), 16 << 20);
    client.send(b"cache_memlimit 64\r\n");
    assert_eq!(client.read_exact(4), b"OK\r\n");
    assert_eq!(items(&http.metrics()), 64 << 20);
}
