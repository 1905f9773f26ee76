"""Calls every operation of meta-memcache, a client of the meta protocol. Argument: HOST:PORT."""

import logging
import socket
import sys
import time

from meta_memcache import CacheClient, Key, RequestFlags, ServerAddress, SetMode
from meta_memcache.base.base_serializer import EncodedValue
from meta_memcache.configuration import (
    LeasePolicy,
    RecachePolicy,
    StalePolicy,
    connection_pool_factory_builder,
)
from meta_memcache.errors import MemcacheError
from meta_memcache.protocol import MA_MODE_DEC, Conflict, Miss, NotStored, Success, Value
from meta_memcache_socket import MemcacheSocket

HOST, PORT = sys.argv[1].rsplit(":", 1)
SERVER = ServerAddress(HOST, int(PORT))
LARGE = bytes(range(256)) * 3600  # 921,600 bytes
BINARY = b"\r\n\0EN\r\nHD\r\n\xff" * 3
HOUR = 3600


class Plain:
    """A serializer that stores bytes unchanged. The client's default serializer would compress large values."""

    def serialize(self, key, value):
        return EncodedValue(data=value, encoding_id=16)

    def unserialize(self, data, encoding_id):
        assert encoding_id == 16, encoding_id
        return bytes(data)


def wait_for_miss(client, key):
    """Waits until a get of the key misses, for at most 10 seconds."""
    deadline = time.monotonic() + 10
    while client.get(key) is not None:
        assert time.monotonic() < deadline, f"{key} must expire within 10 seconds"
        time.sleep(0.05)


def storing(client):
    assert client.set("a", b"1", ttl=HOUR)
    assert client.get("a") == b"1"
    assert client.get("absent") is None
    assert not client.set("a", b"2", ttl=HOUR, set_mode=SetMode.ADD)
    assert not client.refill("a", b"2", ttl=HOUR)
    assert client.refill("b", b"2", ttl=HOUR)
    assert not client.set("absent", b"x", ttl=HOUR, set_mode=SetMode.REPLACE)
    assert client.set("b", b"3", ttl=HOUR, set_mode=SetMode.REPLACE)
    assert client.set("b", b"4", ttl=HOUR, set_mode=SetMode.APPEND)
    assert client.set("b", b"2", ttl=HOUR, set_mode=SetMode.PREPEND)
    assert not client.set("absent", b"x", ttl=HOUR, set_mode=SetMode.APPEND)
    assert client.get("b") == b"234"
    found = client.multi_get(["a", "b", "absent"])
    assert {key.key: value for key, value in found.items()} == {"a": b"1", "b": b"234", "absent": None}
    assert client.get_typed("a", bytes) == b"1"
    assert client.get_typed("a", str) is None
    assert client.delete("b")
    assert not client.delete("b")
    assert client.invalidate("b")
    # The client stores the type of a value in the client flags of the item.
    for value in ("text", 7, 7.5, True, ["list", 1], "long" * 1000):
        assert client.set("typed", value, ttl=HOUR)
        assert client.get("typed") == value


def values(client):
    for length in (1, 249, 250):
        assert client.set("k" * length, b"x", ttl=HOUR)
        assert client.get("k" * length) == b"x"
    # The client sends these keys in base64, because they contain spaces or characters that are not ASCII.
    for key in ("two words", "schl\u00fcssel", "\u9375" * 20):
        assert client.set(key, b"x" + key.encode(), ttl=HOUR)
        assert client.get(key) == b"x" + key.encode()
        assert client.delete(key)
    many = {f"many{i}": b"%d" % i * 30 for i in range(1000)}
    for key, value in many.items():
        assert client.set(key, value, ttl=HOUR)
    assert {key.key: value for key, value in client.multi_get(many).items()} == many

    plain = connect(serializer=Plain())
    for value in (b"", BINARY, LARGE):
        assert plain.set("v", value, ttl=HOUR)
        assert plain.get("v") == value
    try:
        plain.set("v", b"x" * 2_000_000, ttl=HOUR)
        raise AssertionError("the server must refuse a value of 2 MB")
    except MemcacheError:
        pass
    assert plain.get("v") is None


def cas(client):
    first = client.set_cas("c", b"1", ttl=HOUR)
    assert client.get_cas("c") == (b"1", first)
    assert client.set("c", b"2", ttl=HOUR, cas_token=first)
    assert not client.set("c", b"3", ttl=HOUR, cas_token=first)
    assert client.get_cas("absent") == (None, None)
    value, second = client.get_cas_typed("c", bytes)
    assert value == b"2" and second > first
    found = client.multi_get_cas(["c", "absent"])
    assert {key.key: pair for key, pair in found.items()} == {"c": (b"2", second), "absent": (None, None)}
    assert not client.delete("c", cas_token=first)
    assert client.delete("c", cas_token=second)


def arithmetic(client):
    assert not client.delta("n", 5)
    assert client.delta_and_get("n", 5) is None
    assert client.delta_initialize("n", 5, initial_value=10, initial_ttl=HOUR)
    assert client.get("n") == "10"
    assert client.delta_initialize_and_get("n", 5, initial_value=10, initial_ttl=HOUR) == 15
    assert client.delta("n", -6)
    assert client.delta_and_get("n", -100) == 0
    assert client.delta_and_get("n", 2**63) == 2**63
    _, token = client.get_cas("n")
    assert client.delta_and_get("n", -1, cas_token=token) == 2**63 - 1
    assert client.delta_and_get("n", -1, cas_token=token) is None
    assert client.delta("n", 1, refresh_ttl=1)
    wait_for_miss(client, "n")
    client.set("word", "text", ttl=HOUR)
    try:
        client.delta("word", 1)
        raise AssertionError("the server must refuse to increment a text")
    except MemcacheError:
        pass


def expiry(client):
    assert client.set("e", b"1", ttl=1)
    wait_for_miss(client, "e")
    assert client.set("e", b"1", ttl=1)
    assert client.touch("e", ttl=HOUR)
    assert client.meta_get(Key("e"), RequestFlags(return_ttl=True)).flags.ttl > HOUR - 60
    assert client.get("e", touch_ttl=1) == b"1"
    wait_for_miss(client, "e")
    assert not client.touch("e", ttl=1)


def herds(client):
    """Checks that the server selects only one client to recompute a value. The others wait or use the stale value."""
    waits = []
    lease = LeasePolicy(ttl=HOUR, miss_retries=3, miss_retry_wait=1)
    asking = {"lease_policy": lease, "lease_wait_fn": waits.append}
    value, token = client.get_or_lease_cas("lease", **asking)
    assert value is None and token and not waits
    assert client.get_or_lease("lease", **asking) is None and len(waits) == 2
    assert client.set("lease", b"made", ttl=HOUR, cas_token=token)
    assert client.get_or_lease("lease", **asking) == b"made" and len(waits) == 2

    recache = RecachePolicy(ttl=30)
    assert client.set("old", b"1", ttl=20)
    assert client.get("old", recache_policy=recache) is None
    assert client.get("old", recache_policy=recache) == b"1"
    assert client.set("old", b"2", ttl=HOUR)
    assert client.get("old", recache_policy=recache) == b"2"

    stale = StalePolicy(mark_stale_on_deletion_ttl=HOUR, mark_stale_on_cas_mismatch=True)
    assert client.delete("old", stale_policy=stale)
    value, token = client.get_cas("old")
    assert value is None and token
    assert client.get("old") == b"2"
    # The client that the server selected stores the value after another deletion. The server stores it as stale.
    assert client.invalidate("old", stale_policy=stale)
    assert client.set("old", b"3", ttl=HOUR, cas_token=token, stale_policy=stale)
    assert client.get("old") is None
    assert client.get("old") == b"3"


def without_replies(client):
    assert client.set("q", "1", ttl=HOUR, no_reply=True)
    assert client.refill("q", "2", ttl=HOUR, no_reply=True)
    assert client.delta("q", 4, no_reply=True)
    assert client.set("q", "0", ttl=HOUR, set_mode=SetMode.APPEND, no_reply=True)
    assert client.get("q") == "50"
    assert client.delta_initialize("q", 1, initial_value=7, initial_ttl=HOUR, no_reply=True)
    assert client.touch("q", ttl=HOUR, no_reply=True)
    assert client.get("q") == "51"
    assert client.delete("q", no_reply=True)
    assert client.invalidate("q", no_reply=True)
    assert client.get("q") is None


def commands(client):
    """Sends the meta commands with the flags that the other tests do not send."""
    key = Key("meta")
    stored = client.meta_set(key, b"12345", RequestFlags(cache_ttl=HOUR, opaque=b"tag", return_cas_token=True))
    assert type(stored) is Success and stored.flags.opaque == b"tag" and stored.flags.cas_token
    assert type(client.meta_set(key, b"x", RequestFlags(cas_token=stored.flags.cas_token + 1))) is Conflict
    assert type(client.meta_set(key, b"x", RequestFlags(mode=SetMode.ADD.value))) is NotStored
    peek = RequestFlags(return_size=True, return_fetched=True, return_last_access=True, no_update_lru=True)
    seen = client.meta_get(key, peek).flags
    assert (seen.size, seen.fetched, seen.last_access) == (5, False, 0)
    read = client.meta_get(key, RequestFlags(return_value=True, return_client_flag=True, return_key=True))
    assert type(read) is Value and (read.value, read.size, read.flags.client_flag) == (b"12345", 5, 16)
    assert client.meta_get(key, peek).flags.fetched is True
    found = client.meta_multiget([key, Key("absent")], RequestFlags(return_size=True))
    assert found[key].flags.size == 5 and isinstance(found[Key("absent")], Miss)
    assert type(client.meta_arithmetic(Key("absent"), RequestFlags(ma_delta_value=1))) is Miss
    client.meta_set(Key("n"), 10)
    down = RequestFlags(ma_delta_value=3, mode=MA_MODE_DEC, return_value=True, return_ttl=True)
    counted = client.meta_arithmetic(Key("n"), down)
    assert counted.value == "7" and counted.flags.ttl == -1
    assert type(client.meta_delete(key, RequestFlags(mark_stale=True, cache_ttl=HOUR))) is Success
    won = client.meta_get(key, RequestFlags(return_value=True)).flags
    lost = client.meta_get(key, RequestFlags(return_value=True)).flags
    assert (won.stale, won.win, lost.stale, lost.win) == (True, True, True, False)
    assert type(client.meta_delete(key)) is Success
    assert type(client.meta_delete(key)) is Miss


def pipelined():
    """Sends many requests on the client's socket before it reads the first reply."""
    wire = MemcacheSocket(socket.create_connection((HOST, int(PORT)), timeout=10))
    assert wire.raw_cmd(b"version").startswith(b"VERSION ")
    assert b"STAT pid " in wire.raw_cmd(b"stats", multi_line=True)
    for i in range(500):
        wire.send_meta_set(f"p{i}", b"%d" % i)
    assert all(type(wire.get_response()) is Success for _ in range(500))
    for i in range(500):
        wire.send_meta_get(f"p{i}", RequestFlags(return_value=True))
    assert [wire.get_response().value for _ in range(500)] == [b"%d" % i for i in range(500)]
    wire.send_meta_arithmetic("p1", RequestFlags(ma_delta_value=41, return_value=True))
    wire.send_meta_delete("p2")
    wire.send_meta_get("p2", RequestFlags(return_value=True))
    assert wire.get_response().value == b"42"
    assert type(wire.get_response()) is Success and type(wire.get_response()) is Miss
    assert wire.raw_cmd(b"flush_all").strip() == b"OK"
    assert type(wire.meta_get("p1")) is Miss
    wire.close()


def connect(**options):
    # The buffer is large, because with a small buffer the client waits 40 ms for each part of a large value. The client
    # does so with any server.
    pools = connection_pool_factory_builder(recv_timeout=10, read_buffer_size=2**20)
    return CacheClient.cache_client_from_servers(
        servers=[SERVER],
        connection_pool_factory_fn=pools,
        **options,
    )


# The tests cause errors. By default the client logs each error with a traceback.
logging.getLogger("meta_memcache").setLevel(logging.CRITICAL)
client = connect()
for part in (storing, values, cas, arithmetic, expiry, herds, without_replies, commands):
    part(client)
pipelined()
