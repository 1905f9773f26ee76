"""A server under callgrind, on its own and with a connection to it."""

import atexit
import ctypes
import os
import pathlib
import platform
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

START_SECONDS_MAX = 60


def refuse_auxv():
    """Makes prctl(PR_GET_AUXV) fail in this process. rustix asks it where the vDSO is, and the kernel names
    a place that valgrind does not map; where it fails, rustix reads a file that valgrind writes."""
    prctl_number = {"x86_64": 157, "aarch64": 167}[platform.machine()]
    load, equals, answer = 0x20, 0x15, 0x06
    allow, invalid = 0x7FFF0000, 0x00050016
    steps = [
        (load, 0, 0, 0),  # the number of the system call
        (equals, 0, 3, prctl_number),
        (load, 0, 0, 16),  # its first argument
        (equals, 0, 1, 0x41555856),  # PR_GET_AUXV
        (answer, 0, 0, invalid),
        (answer, 0, 0, allow),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    filter_struct = struct.pack("@HP", len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert libc.prctl(set_seccomp, mode_filter, filter_struct) == 0, ctypes.get_errno()


class Server:
    """A server with one worker under callgrind; ends with `profiles`."""

    def __init__(self, binary, flags, callgrind_flags=()):
        self.directory = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.directory.name)
        ports = folder / "ports"
        user = ["-u", "root"] if os.getuid() == 0 else []
        command = ["valgrind", "--tool=callgrind", "--separate-threads=yes"]
        command += [f"--callgrind-out-file={folder}/profile", *callgrind_flags]
        command += [str(binary), *user, "-l", "127.0.0.1", "-p", "-1", "-t", "1", *flags]
        with open(folder / "log", "wb") as log:
            environment = {**os.environ, "MEMCACHED_PORT_FILENAME": str(ports)}
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, preexec_fn=refuse_auxv)
        atexit.register(self.process.kill)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not ports.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                sys.exit(f"{command} did not start:\n{(folder / 'log').read_text()}")
            time.sleep(0.05)
        self.port = int(ports.read_text().split("TCP INET: ")[1].split()[0])
        self.connect()

    def connect(self):
        self.connection = socket.create_connection(("127.0.0.1", self.port))
        self.replies = self.connection.makefile("rb")

    def send(self, request):
        self.connection.sendall(request)

    def line(self):
        return self.replies.readline().decode().rstrip()

    def ask(self, command):
        self.send(command.encode() + b"\r\n")
        return self.line()

    def stats(self, what=""):
        line = self.ask(f"stats {what}".strip())
        found = {}
        while line != "END":
            _, name, value = line.split(" ", 2)
            found[name] = value
            line = self.line()
        return found

    def profiles(self, read):
        """Ends the server; what `read` finds in the profile of each of its threads, a path."""
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        with self.directory as folder:
            return [read(path) for path in sorted(pathlib.Path(folder).glob("profile-*"))]
