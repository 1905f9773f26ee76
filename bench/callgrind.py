"""Runs a server under callgrind and connects to it."""

import atexit
import ctypes
import pathlib
import platform
import signal
import struct
import sys
import tempfile

import process

START_SECONDS_MAX = 60


def refuse_auxv():
    """Makes the system call prctl(PR_GET_AUXV) fail in this process. The server's library rustix uses the call to find
    the vDSO, but the kernel returns an address that valgrind does not map. If the call fails, rustix reads
    /proc/self/auxv, which valgrind emulates."""
    prctl_number = {"x86_64": 157, "aarch64": 167}[platform.machine()]
    # Instructions of the seccomp filter, a BPF program: load a word, jump if equal, return a result.
    load, equals, result = 0x20, 0x15, 0x06
    # Results: allow the system call, or let it fail as invalid.
    allow, invalid = 0x7FFF0000, 0x00050016
    steps = [
        (load, 0, 0, 0),  # the system call number
        (equals, 0, 3, prctl_number),
        (load, 0, 0, 16),  # the first argument
        (equals, 0, 1, 0x41555856),  # PR_GET_AUXV
        (result, 0, 0, invalid),
        (result, 0, 0, allow),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    filter_struct = struct.pack("@HP", len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0, f"errno {ctypes.get_errno()}"
    assert libc.prctl(set_seccomp, mode_filter, filter_struct) == 0, f"errno {ctypes.get_errno()}"


class Server(process.Client):
    """A server with one worker thread that runs under callgrind."""

    def __init__(self, binary, flags, callgrind_flags=()):
        self.directory = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.directory.name)
        command = ["valgrind", "--tool=callgrind", "--separate-threads=yes"]
        command += [f"--callgrind-out-file={folder}/profile", *callgrind_flags]
        command += [str(binary), "-t", "1", *flags]
        with open(folder / "log", "wb") as log:
            options = {"stdout": log, "stderr": log, "preexec_fn": refuse_auxv}
            try:
                self.process, self.port = process.start(command, folder, START_SECONDS_MAX, **options)
            except RuntimeError as error:
                sys.exit(f"{error}:\n{(folder / 'log').read_text()}")
        atexit.register(self.process.kill)
        self.connect(self.port)

    def profiles(self, read):
        """Stops the server. Returns the list of the results of `read(path)` for the profile of each thread."""
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        with self.directory as folder:
            return [read(path) for path in sorted(pathlib.Path(folder).glob("profile-*"))]
