"""Starts a server process on a free port, and connects to it as a client of the text protocol."""

import os
import pathlib
import socket
import subprocess
import threading
import time


def start(command, folder, start_seconds_max, **options):
    """Starts a server on a free port, which the kernel chooses. Returns the process and the port. Passes `options` to
    `subprocess.Popen`. Raises RuntimeError if the server exits, or does not listen within `start_seconds_max`."""
    # The server creates this file when it listens. It first writes a file of another name and then renames it, so
    # `ports` is complete as soon as it exists.
    port_file = pathlib.Path(folder, "ports")
    user = ["-u", "root"] if os.getuid() == 0 else []
    command = [*command, *user, "-l", "127.0.0.1", "-p", "-1"]
    environment = {**os.environ, "MEMCACHED_PORT_FILENAME": str(port_file)}
    process = subprocess.Popen(command, env=environment, **options)
    await_start(process, command, port_file.exists, start_seconds_max)
    return process, int(port_file.read_text().split("TCP INET: ")[1].split()[0])


def start_on_socket(command, path, start_seconds_max, **options):
    """Starts a server that listens on the Unix socket `path`. Returns the process. Passes `options` to
    `subprocess.Popen`. Raises RuntimeError if the server exits, or does not listen within `start_seconds_max`."""
    user = ["-u", "root"] if os.getuid() == 0 else []
    command = [*command, *user, "-s", str(path)]
    process = subprocess.Popen(command, **options)
    await_start(process, command, lambda: accepts_connections(path), start_seconds_max)
    return process


def await_start(process, command, listens, start_seconds_max):
    """Waits until `listens` returns true. Raises RuntimeError if the server exits, or does not listen in time."""
    deadline = time.monotonic() + start_seconds_max
    while not listens():
        if process.poll() is not None:
            raise RuntimeError(f"{command} exited with status {process.returncode} before it listened")
        if time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"{command} did not listen within {start_seconds_max} s")
        time.sleep(0.02)


def accepts_connections(path):
    """True if a server listens on this Unix socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


class Background:
    """Work in a thread, as long as the `with` block runs. A subclass defines `work`, which returns soon after the event
    `stop` is set. The end of the block raises the error of the work again."""

    def __init__(self):
        self.error = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            self.work()
        except Exception as error:
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        if self.error:
            raise self.error


class Client:
    """A connection to a server."""

    def connect(self, port):
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.replies = self.connection.makefile("rb")

    def connect_to_socket(self, path):
        """Connects to the server that listens on this Unix socket."""
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(str(path))
        self.replies = self.connection.makefile("rb")

    def disconnect(self):
        self.replies.close()
        self.connection.close()

    def send(self, request):
        self.connection.sendall(request)

    def line(self):
        """Reads a line of a reply and returns it without its line end."""
        return self.replies.readline().decode().rstrip()

    def ask(self, command):
        """Sends a command whose reply is one line, and returns the reply."""
        self.send(command.encode() + b"\r\n")
        return self.line()

    def stats(self, subject=""):
        """Returns the reply to a `stats` command as a dictionary of names and values."""
        line = self.ask(f"stats {subject}".strip())
        values = {}
        while line != "END":
            _, name, value = line.split(" ", 2)
            values[name] = value
            line = self.line()
        return values
