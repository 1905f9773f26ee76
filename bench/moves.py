"""Moves pages between the classes of a server, for the benchmarks: on an idle server, and while clients load it."""

import time

import process

# While clients load a server, the time in seconds between two commands of `MoveRequests`.
PAUSE_SECONDS = 0.0005


def classes(server):
    """Returns the numbers of the classes that have items."""
    return {name.split(":")[1] for name in server.stats("items") if name.endswith(":number")}


def class_with_most_items(server):
    items = server.stats("items")
    return max(classes(server), key=lambda name: int(items[f"items:{name}:number"]))


def move_pages(server, victim, receiver, count, pause_seconds=0.0001):
    """Moves at least `count` pages. Waits `pause_seconds` after each command, because without a pause the commands would
    keep the server busy. Returns the number of moved pages, and the duration in seconds."""
    first = int(server.stats()["slabs_moved"])
    started = time.monotonic()
    requested = moved = 0
    while moved < count:
        if requested < count:
            # The server replies BUSY until the previous move is complete. The loop repeats the command until then.
            reply = server.ask(f"slabs reassign {victim} {receiver}")
            assert reply == "OK" or reply.startswith("BUSY"), f"the server replied {reply} to slabs reassign"
            requested += reply == "OK"
            time.sleep(pause_seconds)
        else:
            stats = server.stats()
            moved = int(stats["slabs_moved"]) - first
            if stats["slab_reassign_running"] == "0":
                # A server can give up a move. memcached can also lose a command that closely follows the last move.
                requested = min(requested, moved)
        assert time.monotonic() < started + 120, f"only {moved} of {count} pages moved within 120 s"
    return moved, time.monotonic() - started


def class_with_chunk_size(server, size_bytes):
    """Returns the number of the class whose chunks have this size."""
    slabs = server.stats("slabs")
    return next(
        name.split(":")[0] for name, value in slabs.items()
        if name.endswith(":chunk_size") and int(value) == size_bytes
    )


class MoveRequests(process.Background):
    """Requests page moves from a class to another one, one after the other, as long as the `with` block runs and fewer
    than `pages_max` moves have started. If `moving` is false, requests moves from the class to itself, which the server
    refuses."""

    def __init__(self, server, victim, receiver, pages_max, moving=True):
        super().__init__()
        self.client = server.client()
        self.command = f"slabs reassign {victim} {receiver if moving else victim}"
        self.pages_max = pages_max
        self.started = 0

    def work(self):
        while not self.stop.is_set() and self.started < self.pages_max:
            if self.client.ask(self.command) == "OK":
                self.started += 1
            else:
                self.stop.wait(PAUSE_SECONDS)

    def __exit__(self, *exception):
        super().__exit__(*exception)
        while self.client.stats()["slab_reassign_running"] != "0":
            time.sleep(0.01)
        self.client.disconnect()
