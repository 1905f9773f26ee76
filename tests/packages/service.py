"""The part of systemd that the tests of the packages play: they run the command lines of installed units."""

import ctypes
import fcntl
import os
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import tempfile

TIMEOUT_SECONDS = 60
PR_SET_NO_NEW_PRIVS = 38
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def bring_loopback_up():
    """Enables the loopback interface of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def read_unit(tree, name):
    """Returns the settings of a unit with its drop-ins, as a map from names to the lists of their values. A name that is
    a symbolic link is an alias."""
    folder = os.path.join(tree, "lib/systemd/system")
    # The file of `slabwise@one.service` is `slabwise@.service`.
    file = re.sub(r"@.*\.", "@.", name)
    path = os.path.realpath(os.path.join(folder, file))
    texts = [open(path, encoding="utf-8").read()]
    drop_ins = path + ".d"
    for file in sorted(os.listdir(drop_ins)) if os.path.isdir(drop_ins) else []:
        texts.append(open(os.path.join(drop_ins, file), encoding="utf-8").read())
    settings = {}
    for line in "\n".join(texts).splitlines():
        setting = re.fullmatch(r"(\w+)=(.*)", line)
        if setting:
            key, value = setting.groups()
            # An empty value removes the earlier ones.
            settings[key] = settings.get(key, []) + [value] if value else []
    return settings


def user_ids(tree, name):
    for line in open(os.path.join(tree, "etc/passwd"), encoding="utf-8"):
        fields = line.split(":")
        if fields[0] == name:
            return int(fields[2]), int(fields[3])
    raise AssertionError(f"the user {name} exists in {tree}")


class Service:
    """A program that runs in a tree as a service: as its user, without capabilities, with a socket for notifications."""

    def __init__(self, tree, command, ids, sockets=(), environment=None):
        self.tree = tree
        notify = tempfile.mktemp(dir=os.path.join(tree, "run"))
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notifications.bind(notify)
        os.chmod(notify, 0o777)
        self.notifications.settimeout(TIMEOUT_SECONDS)
        self.log_path = tempfile.mktemp()
        count = len(sockets)

        def become_service():
            os.chroot(tree)
            os.chdir("/")
            ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            os.setgroups([])
            os.setgid(ids[1])
            os.setuid(ids[0])
            # Moved above the range first, so that no socket replaces another.
            moved = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD, 100) for one in sockets]
            for number, descriptor in enumerate(moved):
                os.dup2(descriptor, 3 + number)

        notify = notify[len(tree.rstrip("/")) :]
        self.environment = {"PATH": "/usr/bin:/bin", "NOTIFY_SOCKET": notify, **(environment or {})}
        listen = {}
        if count:
            # `exec` keeps the process id, which the environment of subprocess cannot contain.
            listen["LISTEN_FDS"] = str(count)
            command = ["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", *command]
        self.process = subprocess.Popen(
            command,
            env={**self.environment, **listen},
            preexec_fn=become_service,
            stdin=subprocess.DEVNULL,
            stderr=open(self.log_path, "w", encoding="utf-8"),
            close_fds=not count,
        )
        self.main = self.process.pid
        lines = self.notification()
        assert "READY=1" in lines, lines
        assert f"MAINPID={self.process.pid}" in lines, lines
        status = open(f"/proc/{self.process.pid}/status", encoding="utf-8").read()
        assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE), "the service has no capabilities"

    def log(self):
        return open(self.log_path, encoding="utf-8").read()

    def notification(self):
        try:
            return self.notifications.recv(4096).decode().splitlines()
        except TimeoutError:
            raise AssertionError(f"the server sends a notification; its log: {self.log()}") from None

    def follow_upgrade(self):
        """Waits until another process is the main process and ready, and the former one has ended."""
        # The former process and the new one both announce the new one, in any order.
        announced, is_ready = [], False
        while len(announced) < 2 or not is_ready:
            lines = self.notification()
            mains = [int(line[8:]) for line in lines if line.startswith("MAINPID=")]
            announced += [pid for pid in mains if pid != self.main]
            is_ready = is_ready or ("READY=1" in lines and announced[-1:] == mains)
        assert announced[0] == announced[1], announced
        assert self.process.wait(TIMEOUT_SECONDS) == 0, self.log()
        self.main = announced[0]

    def reload(self):
        os.kill(self.main, signal.SIGHUP)
        assert self.notification()[0] == "RELOADING=1"
        assert "READY=1" in self.notification()

    def stop(self):
        end = os.pidfd_open(self.main)
        os.kill(self.main, signal.SIGUSR1)
        assert self.notification()[0] == "STOPPING=1"
        assert select.select([end], [], [], TIMEOUT_SECONDS)[0], self.log()
        os.close(end)
        assert self.process.wait(TIMEOUT_SECONDS) == 0, self.log()


def expanded(unit, text, instance=""):
    """Returns the text with the instance and the variables `${NAME}` of the unit."""
    text = text.replace("%i", instance)
    # The last value of a variable applies.
    for variable in reversed(unit["Environment"]):
        key, _, value = variable.replace("%i", instance).partition("=")
        text = text.replace(f"${{{key}}}", value)
    assert "${" not in text, text
    return text


def start_unit(tree, name, sockets=()):
    """Starts the service of an installed unit. Creates its runtime directories as systemd does."""
    unit = read_unit(tree, name)
    instance = name.partition("@")[2].partition(".")[0]
    ids = user_ids(tree, unit["User"][-1])
    folders = sorted(expanded(unit, it, instance) for it in unit["RuntimeDirectory"])
    for folder in folders:
        runtime = os.path.join(tree, "run", folder)
        os.makedirs(runtime, exist_ok=True)
        os.chown(runtime, *ids)
    environment = dict(expanded(unit, it, instance).split("=", 1) for it in unit["Environment"])
    environment["RUNTIME_DIRECTORY"] = ":".join(f"/run/{it}" for it in folders)
    command = shlex.split(expanded(unit, unit["ExecStart"][-1], instance))
    assert command[-1] == f"conf_file={environment['CONF']}", command
    reload = unit["ExecReload"][-1]
    assert "kill -HUP $MAINPID" in reload and "upgrade -d -o conf_file=$CONF;" in reload, reload
    control = "/run/slabwise-%i/control" if instance else "/run/slabwise/control"
    assert control in reload, reload
    assert unit["KillSignal"] == ["SIGUSR1"] and "PrivateUsers" not in unit
    return Service(tree, command, ids, sockets, environment)


class Client:
    """A connection to a server."""

    def __init__(self, address):
        self.file = socket.create_connection(address, timeout=TIMEOUT_SECONDS).makefile("rwb")

    def ask(self, text):
        self.file.write(text.encode() + b"\r\n")
        self.file.flush()
        return self.file.readline().decode().strip()

    def set(self, key, value):
        assert self.ask(f"set {key} 0 0 {len(value)}\r\n{value}") == "STORED"

    def get(self, key):
        first = self.ask(f"get {key}")
        if first == "END":
            return None
        value = self.file.readline().decode().strip()
        assert self.file.readline() == b"END\r\n"
        return value

    def stat(self, name):
        line, found = self.ask("stats"), None
        while line != "END":
            if line.startswith(f"STAT {name} "):
                found = line.split(" ")[2]
            line = self.file.readline().decode().strip()
        return found
