"""Calls every operation of pymemcache, a client in pure Python. Argument: HOST:PORT."""

import sys
import time

from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

HOST, PORT = sys.argv[1].rsplit(":", 1)
SERVER = (HOST, int(PORT))
LARGE = bytes(range(256)) * 3600  # 921,600 bytes
BINARY = b"\r\n\0END\r\n\xff" * 3


def wait_for_miss(client, key):
    """Waits until a get of the key misses, for at most 10 seconds."""
    deadline = time.monotonic() + 10
    while client.get(key) is not None:
        assert time.monotonic() < deadline, f"{key} must expire within 10 seconds"
        time.sleep(0.05)


def storing(client):
    assert client.set("a", b"1") is True
    assert client.get("a") == b"1"
    assert client.get("absent") is None
    assert client.get("absent", b"default") == b"default"
    assert client.add("a", b"2") is False
    assert client.add("b", b"2") is True
    assert client.replace("absent", b"x") is False
    assert client.replace("b", b"3") is True
    assert client.append("b", b"4") is True
    assert client.prepend("b", b"2") is True
    assert client.append("absent", b"x") is False
    assert client.prepend("absent", b"x") is False
    assert client.get("b") == b"234"
    assert client.set_many({"m1": b"v1", "m2": b"v2"}) == []
    assert client.get_many(["m1", "m2", "absent"]) == {"m1": b"v1", "m2": b"v2"}
    assert client.delete("m1") is True
    assert client.delete("m1") is False
    assert client.delete_many(["m1", "m2"]) is True
    assert client.get_many(["m1", "m2"]) == {}
    assert client.get_many([]) == {}


def values(client):
    for value in (b"", BINARY, LARGE):
        assert client.set("v", value) is True
        assert client.get("v") == value
    for length in (1, 249, 250):
        assert client.set("k" * length, b"x") is True
        assert client.get("k" * length) == b"x"
    many = {f"many{i}": b"%d" % i * 100 for i in range(1000)}
    client.set_many(many)
    assert client.get_many(list(many)) == many
    try:
        client.set("v", b"x" * 2_000_000, noreply=False)
        raise AssertionError("the server must refuse a value of 2 MB")
    except MemcacheServerError:
        pass
    # The connection can still be used, and the refused set has removed the old value.
    assert client.get("v") is None


def cas(client):
    client.set("c", b"1")
    value, number = client.gets("c")
    assert value == b"1"
    assert client.cas("c", b"2", number) is True
    assert client.cas("c", b"3", number) is False
    assert client.cas("absent", b"3", number) is None
    assert client.get("c") == b"2"
    assert client.gets("absent") == (None, None)
    found = client.gets_many(["c", "a", "absent"])
    assert {key: value for key, (value, _) in found.items()} == {"c": b"2", "a": b"1"}


def arithmetic(client):
    client.set("n", b"10")
    assert client.incr("n", 5) == 15
    assert client.decr("n", 6) == 9
    assert client.decr("n", 100) == 0
    assert client.incr("n", 2**64 - 1) == 2**64 - 1
    assert client.incr("n", 2) == 1
    assert client.incr("absent", 1) is None
    assert client.decr("absent", 1) is None
    client.set("text", b"text")
    try:
        client.incr("text", 1)
        raise AssertionError("the server must refuse to increment a text")
    except MemcacheClientError:
        pass


def expiry(client):
    client.set("e", b"1", expire=1)
    wait_for_miss(client, "e")
    client.set("e", b"1")
    assert client.touch("e", 100) is True
    assert client.get("e") == b"1"
    assert client.touch("e", 1) is True
    wait_for_miss(client, "e")
    assert client.touch("e", 1) is False
    client.set("e", b"1", expire=-1)
    assert client.get("e") is None
    client.set("e", b"1", expire=int(time.time()) + 100)
    assert client.get("e") == b"1"


def without_replies(client):
    client.set("q", b"1", noreply=True)
    client.add("q", b"2", noreply=True)
    client.incr("q", 4, noreply=True)
    client.append("q", b"0", noreply=True)
    assert client.get("q") == b"50"
    client.touch("q", 100, noreply=True)
    client.delete("q", noreply=True)
    assert client.get("q") is None


def administration(client):
    stats = client.stats()
    assert stats[b"curr_items"] > 0 and b"pid" in stats
    assert b"maxbytes" in client.stats("settings")
    assert client.version()
    assert client.cache_memlimit(256) is True
    assert client.flush_all() is True
    assert client.get("a") is None
    client.set("a", b"1")
    assert client.flush_all(delay=100) is True
    assert client.get("a") == b"1"


for kind in (Client, PooledClient, lambda server, **options: HashClient([server], **options)):
    with_replies = kind(SERVER, default_noreply=False)
    with_replies.flush_all()
    for part in (storing, values, cas, arithmetic, expiry, without_replies):
        part(with_replies)
    with_replies.close()

administration(Client(SERVER, default_noreply=False))
