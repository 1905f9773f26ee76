//! Tests of the routes, without sockets.

use super::api;
use super::guard::Guard;
use super::page;
use super::route::{App, Running, Starting};
use crate::config::{HttpAddress, HttpSettings};
use crate::session::testing::{Client, Fixture};
use crate::shared::{Shared, WorkerContext};
use http_body_util::BodyExt;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use serde_json::Value;
use std::collections::BTreeSet;

fn settings(hot_keys: usize) -> HttpSettings {
    HttpSettings {
        address: HttpAddress::Tcp { host: None, port: 0 },
        token_file: None,
        is_insecure: false,
        hosts: Vec::new(),
        has_slab_metrics: true,
        hot_keys,
    }
}

fn guard() -> Guard {
    Guard::new(&settings(0)).expect("there is no token file")
}

fn request(path: &str) -> Parts {
    let request = Request::get(path).header("Host", "localhost").body(());
    request.expect("the request is valid").into_parts().0
}

/// Returns the status and the body of the response of a server that has served some requests.
fn get(path: &str, app: &impl App) -> (StatusCode, String) {
    let response = app.answer(&request(path));
    let status = response.status();
    let mut body = response.into_body();
    let runtime = super::serve::runtime().expect("an event loop can be created");
    let frame =
        runtime.block_on(body.frame()).expect("the body has a frame").expect("no error occurs");
    let bytes = frame.into_data().expect("the frame has data");
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

/// Calls `test` with a server whose cache has some items.
fn with_items(test: impl FnOnce(&Running<'_, '_>, &Shared<'_>)) {
    with_items_in(&Fixture::new(), test);
}

/// Calls `test` with a server of this fixture, whose cache has some items. The worker is in a timed round.
fn with_items_in(fixture: &Fixture, test: impl FnOnce(&Running<'_, '_>, &Shared<'_>)) {
    let shared = fixture.shared();
    let key_samples = shared.key_samples.as_ref().map(|all| &all[0]);
    let worker = WorkerContext { key_samples, ..fixture.worker(&shared) };
    let mut client = Client::new(worker);
    for number in 0..100 {
        let script = format!("set key{number} 0 0 10\r\n0123456789\r\nget key{number}\r\n");
        client.send(script.as_bytes());
    }
    let guard = guard();
    let app = Running::new(&shared, &guard, true);
    app.tick();
    test(&app, &shared);
}

#[test]
fn every_document_of_the_api_is_json_and_its_numbers_are_those_of_the_cache() {
    with_items(|app, _| {
        let document = |name: &str| -> Value {
            let (status, body) = get(&format!("{}{name}", api::PREFIX), app);
            assert_eq!(status, StatusCode::OK, "{name}");
            serde_json::from_str(&body).unwrap_or_else(|error| panic!("{name}: {error}: {body}"))
        };
        for name in api::NAMES {
            document(name);
        }
        let overview = document("overview");
        assert_eq!((&overview["items"], &overview["get_hits"]), (&100.into(), &100.into()));
        let classes = document("classes");
        let with_items: Vec<&Value> = classes
            .as_array()
            .expect("the classes are a list")
            .iter()
            .filter(|class| class["items"] != 0)
            .collect();
        assert_eq!(with_items.len(), 1, "all items have the same size");
        assert_eq!(with_items[0]["items"], 100);
        let pages = document("pages");
        let cells = pages["cells"].as_array().expect("the cells are a list");
        let owned = cells.iter().filter(|&cell| *cell == with_items[0]["class"]).count();
        assert_eq!(owned as u64, with_items[0]["pages"], "the map shows the pages of the class");
        assert_eq!(document("history")[0]["items"], 100);
        assert_eq!(document("history?seconds=60").as_array().map(Vec::len), Some(1));
    });
}

/// Returns the document of hot keys, with the names of the keys and of the prefixes.
fn hot_keys(app: &impl App) -> (Value, [Vec<String>; 2]) {
    let (status, body) = get("/api/v1/hot-keys", app);
    assert_eq!(status, StatusCode::OK, "{body}");
    let document: Value = serde_json::from_str(&body).expect("the document is JSON");
    let names = ["keys", "prefixes"].map(|list| {
        let entries = document[list].as_array().expect("the document has a list of this name");
        entries.iter().map(|it| it["name"].as_str().unwrap_or_default().to_owned()).collect()
    });
    (document, names)
}

#[test]
fn hot_keys_are_off_by_default_and_the_document_has_the_remedy() {
    with_items(|app, _| {
        let (document, names) = hot_keys(app);
        assert_eq!(names, [Vec::<String>::new(), Vec::new()]);
        assert_eq!((&document["enabled"], &document["samples"]), (&false.into(), &0.into()));
        let remedy = document["remedy"].as_str().expect("the remedy is a text");
        assert!(remedy.contains("-o http_hot_keys=N"), "{remedy}");
    });
}

#[test]
fn hot_keys_are_those_of_the_gets_in_every_dialect_and_prefixes_use_the_delimiter() {
    let mut fixture = Fixture::new();
    fixture.settings.http = Some(settings(2));
    fixture.settings.prefix_delimiter = '/';
    with_items_in(&fixture, |app, shared| {
        let key_samples = shared.key_samples.as_ref().map(|all| &all[0]);
        let mut client = Client::new(WorkerContext { key_samples, ..fixture.worker(shared) });
        for _ in 0..50 {
            client.send(b"get app/page/1 app/<b>\r\ngat 0 app/page/1\r\nmg app/page/1 v\r\n");
            client.send(b"set stored/1 0 0 1\r\nx\r\nmg YXBwLzI= b\r\n");
        }
        let mut other = Client::new(fixture.worker(shared));
        other.send(b"get other\r\n".repeat(1_000).as_slice());
        app.tick();
        let (document, [keys, prefixes]) = hot_keys(app);
        assert_eq!(document["samples"], 100 + 50 * 5, "only gets of timed rounds are sampled");
        assert_eq!((&document["enabled"], &document["remedy"]), (&true.into(), &Value::Null));
        assert_eq!(keys[0], "app/page/1");
        assert_eq!(keys.len(), 2, "the option limits the number of keys");
        assert!(["app/<b>", "app/2"].contains(&keys[1].as_str()), "{keys:?}");
        assert_eq!(prefixes, ["app"]);
        assert_eq!(document["keys"][0]["get_share"], 150.0 / 350.0);
        assert_eq!(document["keys"][0]["get_share_error"], 0.0);
    });
}

#[test]
fn counts_by_prefix_and_samples_of_keys_do_not_affect_each_other() {
    let mut fixture = Fixture::new();
    fixture.settings.http = Some(settings(10));
    with_items_in(&fixture, |app, shared| {
        let mut client = Client::new(fixture.worker(shared));
        for (command, expected) in [
            ("get a:1", "END\r\n"),
            ("stats detail on", "OK\r\n"),
            ("get a:1", "END\r\n"),
            ("stats detail off", "OK\r\n"),
            ("get a:1", "END\r\n"),
            ("stats detail dump", "PREFIX a get 1 hit 0 set 0 del 0\r\nEND\r\n"),
        ] {
            client.received.clear();
            client.send(format!("{command}\r\n").as_bytes());
            assert_eq!(String::from_utf8_lossy(&client.received), expected, "{command}");
        }
        app.tick();
        assert_eq!(hot_keys(app).0["samples"], 100, "the client was not in a timed round");
    });
}

#[test]
fn unknown_paths_are_not_found_and_the_text_lists_the_paths() {
    with_items(|app, _| {
        for path in ["/unknown", "/api/v1/", "/api/v1/unknown", "/page/", "/page/unknown.js"] {
            let (status, body) = get(path, app);
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
            assert!(body.contains("/api/v1/overview\n") && body.contains("/metrics\n"), "{body}");
        }
    });
}

#[test]
fn the_dashboard_uses_only_files_of_the_server() {
    with_items(|app, _| {
        let mut seen = BTreeSet::new();
        let mut left = vec!["/".to_owned()];
        while let Some(path) = left.pop() {
            let (status, body) = get(&path, app);
            assert_eq!(status, StatusCode::OK, "{path}");
            let without_namespace = body.replace("http://www.w3.org/2000/svg", "");
            assert!(!without_namespace.contains("://"), "{path} names no other server");
            let quoted = body.split('"').skip(1).step_by(2).map(|it| it.replace("./", "/page/"));
            for link in quoted.filter(|it| it.starts_with("/page/")) {
                if seen.insert(link.clone()) {
                    left.push(link);
                }
            }
        }
        assert!(seen.contains("/page/app.js") && seen.contains("/page/chart.js"), "{seen:?}");
        assert_eq!(seen.len() + 1, page::FILES.len(), "the dashboard uses every file: {seen:?}");
    });
}

#[test]
fn a_server_that_starts_is_alive_but_not_ready() {
    assert_eq!(get("/healthz", &Starting).0, StatusCode::OK);
    for path in ["/readyz", "/metrics", "/"] {
        assert_eq!(get(path, &Starting).0, StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
}

#[test]
fn a_server_that_stops_is_not_ready() {
    with_items(|app, shared| {
        assert_eq!(get("/readyz", app).0, StatusCode::OK);
        shared.stop();
        assert_eq!(get("/readyz", app).0, StatusCode::SERVICE_UNAVAILABLE);
    });
}
