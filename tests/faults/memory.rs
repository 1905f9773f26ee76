//! Memory that is full and cannot be freed, because evictions are disabled.

use super::fixture::Fixture;

/// The reply to a store for which there is no memory.
const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory storing object";

#[test]
fn without_evictions_a_store_into_full_memory_is_refused() {
    let fixture = Fixture::start(64, &["-M"]);
    let mut client = fixture.server.connect();
    let value = vec![b'v'; 10_000];
    let mut stored = Vec::new();
    loop {
        let key = format!("key{}", stored.len());
        let reply = client.set(&key, &value);
        if is_refusal(&reply) {
            break;
        }
        assert_eq!(reply, "STORED");
        stored.push(key);
        assert!(stored.len() < 10_000, "a server with -m 64 stores less than 100 MB");
    }
    for key in &stored {
        assert!(
            client.get(key).is_some_and(|found| found == value),
            "{key} was stored and is not evicted"
        );
    }
    assert_eq!(client.ask(&format!("delete {}", stored[0])), "DELETED");
    assert_eq!(client.set("again", &value), "STORED");
    fixture.check_recovery();
}

/// True if the reply to a store is the error "out of memory". Panics if it is another error.
fn is_refusal(reply: &str) -> bool {
    assert!(
        reply == "STORED" || reply == OUT_OF_MEMORY,
        "the reply to a store is STORED or out of memory, not {reply:?}"
    );
    reply == OUT_OF_MEMORY
}
