"""Calls every operation of pylibmc, a Python wrapper of libmemcached. Argument: HOST:PORT."""

import sys
import time

import pylibmc

LARGE = bytes(range(256)) * 3600  # 921,600 bytes
BINARY = b"\r\n\0END\r\n\xff" * 3


def wait_for_miss(client, key):
    """Waits until a get of the key misses, for at most 10 seconds."""
    deadline = time.monotonic() + 10
    while client.get(key) is not None:
        assert time.monotonic() < deadline, f"{key} must expire within 10 seconds"
        time.sleep(0.05)


def is_refused(operation, *args):
    """Returns True if the server refuses the operation.

    The client returns False, or raises NotFound with the binary protocol.
    """
    try:
        return not operation(*args)
    except pylibmc.NotFound:
        return True


def storing(client):
    assert client.set("a", b"1")
    assert client.get("a") == b"1"
    assert client.get("absent") is None
    assert not client.add("a", b"2")
    assert client.add("b", b"2")
    assert is_refused(client.replace, "absent", b"x")
    assert client.replace("b", b"3")
    assert client.append("b", b"4")
    assert client.prepend("b", b"2")
    assert is_refused(client.append, "absent", b"x")
    assert is_refused(client.prepend, "absent", b"x")
    assert client.get("b") == b"234"
    assert client.set_multi({"1": b"v1", "2": b"v2"}, key_prefix="m") == []
    assert client.get_multi(["1", "2", "absent"], key_prefix="m") == {"1": b"v1", "2": b"v2"}
    assert client.add_multi({"m1": b"x", "m3": b"v3"}) == ["m1"]
    assert client.delete("m1")
    assert not client.delete("m1")
    assert client.delete_multi(["m2", "m3"])
    assert client.get_multi(["m1", "m2", "m3"]) == {}
    # The client stores the type of a value in the client flags of the item.
    for value in ("text", 7, 7.5, True, None, ["list", 1]):
        assert client.set("typed", value)
        assert client.get("typed") == value


def values(client):
    for value in (b"", BINARY, LARGE):
        assert client.set("v", value)
        assert client.get("v") == value
    for length in (1, 249, 250):
        assert client.set("k" * length, b"x")
        assert client.get("k" * length) == b"x"
    many = {f"many{i}": b"%d" % i * 100 for i in range(1000)}
    assert client.set_multi(many) == []
    assert client.get_multi(list(many)) == many
    try:
        client.set("v", b"x" * 2_000_000)
        raise AssertionError("the server must refuse a value of 2 MB")
    except pylibmc.TooBig:
        pass
    assert client.set("v", b"after")
    assert client.get("v") == b"after"


def cas(client):
    client.set("c", b"1")
    value, number = client.gets("c")
    assert value == b"1"
    assert client.cas("c", b"2", number)
    assert not client.cas("c", b"3", number)
    assert client.get("c") == b"2"
    assert client.gets("absent") == (None, None)


def arithmetic(client):
    client.set("n", 10)
    assert client.incr("n", 5) == 15
    assert client.decr("n", 6) == 9
    assert client.decr("n", 100) == 0
    assert client.incr("n") == 1
    assert client.decr("n") == 0
    client.incr_multi(["n"], delta=3)
    assert client.get("n") == 3
    for operation in (client.incr, client.decr):
        try:
            operation("absent")
            raise AssertionError("the server must refuse to change a missing number")
        except pylibmc.NotFound:
            pass


def expiry(client):
    assert client.set("e", b"1", time=1)
    wait_for_miss(client, "e")
    # With the binary protocol, libmemcached waits five seconds for more bytes after the reply to a touch.
    if not client.binary:
        assert client.set("e", b"1")
        assert client.touch("e", 100)
        assert client.get("e") == b"1"
        assert client.touch("e", 1)
        wait_for_miss(client, "e")
        assert not client.touch("e", 1)
    assert client.set("e", b"1", time=int(time.time()) + 100)
    assert client.get("e") == b"1"


def administration(client):
    ((_, stats),) = client.get_stats()
    assert int(stats["curr_items"]) > 0 and "pid" in stats
    assert client.flush_all()
    assert client.get("a") is None


# The options of the clients that use the text protocol, and of those that use the binary protocol.
TEXT = ({}, {"tcp_nodelay": True, "no_block": True}, {"buffer_requests": False, "cas": True})
BINARY_PROTOCOL = ({}, {"tcp_nodelay": True, "cas": True})
for binary, behaviors in [(False, each) for each in TEXT] + [(True, each) for each in BINARY_PROTOCOL]:
    client = pylibmc.Client([sys.argv[1]], binary=binary, behaviors=behaviors)
    client.flush_all()
    for part in (storing, values, cas, arithmetic, expiry, administration):
        if part is not cas or behaviors.get("cas"):
            part(client)
    client.disconnect_all()
