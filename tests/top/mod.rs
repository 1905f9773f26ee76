//! `slabwise top --once` reads slabwise, memcached and a server that is down.

use crate::support::{Server, built_slabwise, stock_memcached};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};

/// Runs `slabwise top` with these arguments.
fn top(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slabwise"));
    command.arg("top").args(args).output().expect("the command runs")
}

/// Runs `slabwise top --once --json` for these servers. Returns the exit code and the document.
fn json(servers: &[SocketAddr]) -> (Option<i32>, serde_json::Value) {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let mut args = vec!["--once", "--json", "--interval", "0.3"];
    args.extend(servers.iter().map(String::as_str));
    let output = top(&args);
    let document = serde_json::from_slice(&output.stdout);
    (output.status.code(), document.expect("stdout is a JSON document"))
}

#[test]
fn a_file_of_prometheus_lists_the_servers_and_the_document_has_their_sums() {
    let servers = [(); 2].map(|()| Server::start(&built_slabwise()));
    servers.iter().for_each(store_and_get);
    let folder = tempfile::tempdir().expect("a folder can be created");
    let path = folder.path().join("targets.yml");
    let [a, b] = [0, 1].map(|server: usize| servers[server].address());
    std::fs::write(
        &path,
        format!("- targets: ['{a}']\n  labels: {{pool: x}}\n- targets: ['{b}']\n"),
    )
    .expect("the file can be written");
    let list = format!("file:{}", path.display());
    let output = top(&["--once", "--json", "--interval", "0.3", &list, &a.to_string()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("stdout is a JSON document");
    let rows = document["servers"].as_array().expect("the document has servers");
    let addresses: Vec<_> = rows.iter().map(|row| row["address"].clone()).collect();
    assert_eq!(addresses, [a.to_string(), b.to_string()], "each server once");
    assert_eq!(
        (&document["total"]["items"], &rows[0]["differences"]),
        (&2.into(), &serde_json::json!([]))
    );
    let output = top(&["--once", "file:/missing/servers"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("cannot read /missing/servers: No such file"), "{error}");
}

/// Returns an address on which no server listens.
fn closed_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("a listener has an address")
}

/// Returns a memcached server, or `None` if memcached is not installed.
fn memcached() -> Option<Server> {
    let installed = Command::new("memcached").arg("-V").output().is_ok();
    installed.then(|| Server::start(&stock_memcached()))
}

/// Stores a value, and gets it once.
fn store_and_get(server: &Server) {
    let mut client = server.connect();
    assert_eq!(client.set("key", b"value"), "STORED");
    assert_eq!(client.get("key"), Some(b"value".to_vec()));
}

#[test]
fn the_json_document_has_each_server_and_the_exit_code_reports_a_closed_port() {
    let slabwise = Server::start(&built_slabwise());
    let memcached = memcached();
    let closed = closed_address();
    let mut servers = vec![slabwise.address(), closed];
    servers.extend(memcached.as_ref().map(Server::address));
    for server in [Some(&slabwise), memcached.as_ref()].into_iter().flatten() {
        store_and_get(server);
    }
    let (code, document) = json(&servers);
    assert_eq!(code, Some(1), "one server is down");
    assert_eq!(document["interval_seconds"], 0.3);
    let rows = document["servers"].as_array().expect("the document has servers");
    assert_eq!(rows.len(), servers.len());
    for (row, address) in rows.iter().zip(&servers) {
        assert_eq!(row["address"], address.to_string());
    }
    assert_eq!(rows[1]["reachable"], false);
    let error = rows[1]["error"].as_str().expect("a server that is down has an error");
    assert!(error.contains("Connection refused"), "{error}");
    for row in rows.iter().filter(|row| row["address"] != closed.to_string()) {
        assert_eq!(row["reachable"], true, "{row}");
        assert_eq!((&row["items"], &row["requests_per_second"]), (&1.into(), &0.0.into()), "{row}");
        assert!(row["memory_limit_bytes"].as_u64() > row["memory_bytes"].as_u64(), "{row}");
        assert!(row["elapsed_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.3), "{row}");
        let class = &row["classes"][0];
        assert_eq!((&class["items"], &class["pages"]), (&1.into(), &1.into()), "{row}");
        assert_eq!(class["hits_per_second"], 0.0, "{row}");
    }
    assert_eq!(rows[0]["program"], "slabwise");
    assert!(rows[0]["plan"]["page_policy"].is_string(), "{}", rows[0]);
    assert!(rows[0]["profile"]["predictions"].is_array(), "{}", rows[0]);
    match rows.get(2) {
        None => println!("memcached is not installed, so the test used only slabwise"),
        Some(row) => {
            assert_eq!(row["program"], "memcached");
            assert!(row.get("plan").is_none() && row.get("profile").is_none(), "{row}");
        }
    }
}

#[test]
fn the_exit_code_is_0_if_every_server_replies() {
    let slabwise = Server::start(&built_slabwise());
    let (code, document) = json(&[slabwise.address()]);
    assert_eq!(code, Some(0), "{document}");
}

#[test]
fn without_json_the_command_prints_tables() {
    let slabwise = Server::start(&built_slabwise());
    store_and_get(&slabwise);
    let (address, closed) = (slabwise.address().to_string(), closed_address().to_string());
    let output = top(&["--once", "--interval", "0.1", &address, &closed]);
    assert_eq!(output.status.code(), Some(1), "one server is down");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("server "), "{text}");
    assert!(text.contains(&format!("\n{address}:\nclass  chunk B")), "{text}");
    assert!(text.contains(&format!("\n{closed} cannot be read: cannot connect: ")), "{text}");
}

#[test]
fn invalid_arguments_and_a_missing_terminal_are_errors() {
    let errors = [
        (&["localhost:port"][..], 2, "'localhost:port'"),
        (&["localhost", "--json"], 2, "--once"),
        (&["localhost", "--interval", "0"], 2, "from 0.1 to 3600"),
        (&["localhost"], 1, "use --once"),
    ];
    for (args, code, text) in errors {
        let output = top(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(text), "{args:?}: {error}");
    }
}
