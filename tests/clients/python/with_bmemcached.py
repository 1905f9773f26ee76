"""Calls every operation of bmemcached, a client of the binary protocol in pure Python.

Arguments: HOST:PORT [USER PASSWORD].
"""

import sys
import time

import bmemcached
from bmemcached.exceptions import MemcachedException

SERVER = sys.argv[1]
CREDENTIALS = tuple(sys.argv[2:4])
LARGE = bytes(range(256)) * 3600  # 921,600 bytes
AUTH_ERROR = 0x20
BINARY = b"\r\n\0END\r\n\xff" * 3


def wait_for_miss(client, key):
    """Waits until a get of the key misses, for at most 10 seconds."""
    deadline = time.monotonic() + 10
    while client.get(key) is not None:
        assert time.monotonic() < deadline, f"{key} must expire within 10 seconds"
        time.sleep(0.05)


def storing(client):
    assert client.set("a", b"1")
    assert client.get("a") == b"1"
    assert client.get("absent") is None
    assert not client.add("a", b"2")
    assert client.add("b", b"2")
    assert not client.replace("absent", b"x")
    assert client.replace("b", b"3")
    assert client.get("b") == b"3"
    assert client.set_multi({"m1": b"v1", "m2": b"v2"}) == []
    assert client.get_multi(["m1", "m2", "absent"]) == {"m1": b"v1", "m2": b"v2"}
    assert client.delete("m1")
    # The client also reports success if the key to delete is missing.
    assert client.delete("m1")
    assert client.set("m1", b"v1")
    assert client.delete_multi(["m1", "m2"])
    assert client.get_multi(["m1", "m2"]) == {}
    # The client stores the type of a value in the client flags of the item.
    for value in ("text", 7, 7.5, ["list", 1], {"key": None}):
        assert client.set("typed", value)
        assert client.get("typed") == value


def values(client):
    for value in (b"", BINARY, LARGE):
        assert client.set("v", value, compress_level=0)
        assert client.get("v") == value
    for length in (1, 249, 250):
        assert client.set("k" * length, b"x")
        assert client.get("k" * length) == b"x"
    many = {f"many{i}": b"%d" % i * 100 for i in range(1000)}
    assert client.set_multi(many) == []
    assert client.get_multi(list(many)) == many


def cas(client):
    stored, first = client.set("c", b"1", get_cas=True)
    assert stored and client.gets("c") == (b"1", first)
    assert client.cas("c", b"2", first)
    assert not client.cas("c", b"3", first)
    assert client.get("c") == b"2"
    assert not client.delete("c", cas=first)
    value, second = client.gets("c")
    assert (value, client.get_multi(["c"], get_cas=True)) == (b"2", {"c": (b"2", second)})
    assert client.delete("c", cas=second)
    assert client.gets("c") == (None, None)


def arithmetic(client):
    client.delete("n")
    assert client.incr("n", 5, default=10) == 10
    assert client.incr("n", 5) == 15
    assert client.decr("n", 6) == 9
    assert client.decr("n", 100) == 0
    assert client.incr("n", 2**63) == 2**63
    client.delete("n")
    assert client.decr("n", 1, default=7) == 7


def expiry(client):
    assert client.set("e", b"1", time=1)
    wait_for_miss(client, "e")
    assert client.incr("counted", 1, default=1, time=1) == 1
    wait_for_miss(client, "counted")
    assert client.set("e", b"1", time=int(time.time()) + 100)
    assert client.get("e") == b"1"


def administration(client):
    (stats,) = client.stats().values()
    assert int(stats["curr_items"]) > 0 and "pid" in stats
    (settings,) = client.stats("settings").values()
    assert "maxbytes" in settings
    assert client.flush_all()
    assert client.get("a") is None
    client.set("a", b"1")
    assert client.flush_all(time=100)
    assert client.get("a") == b"1"


for kind in (bmemcached.Client, bmemcached.DistributedClient):
    client = kind((SERVER,), *CREDENTIALS)
    client.flush_all()
    for part in (storing, values, cas, arithmetic, expiry, administration):
        part(client)
    client.disconnect_all()

if CREDENTIALS:
    user, password = CREDENTIALS
    for wrong in ((user, password + "x"), (user, password[:-1]), ("nobody", password)):
        try:
            bmemcached.Client((SERVER,), *wrong).get("a")
            raise AssertionError(f"the server must refuse the credentials {wrong}")
        except MemcachedException as refusal:
            assert refusal.code == AUTH_ERROR, refusal
    try:
        bmemcached.Client((SERVER,)).get("a")
        raise AssertionError("the server must refuse a client without a password")
    except MemcachedException as refusal:
        assert refusal.code == AUTH_ERROR, refusal
    assert bmemcached.Client((SERVER,), *CREDENTIALS).get("a") == b"1"
