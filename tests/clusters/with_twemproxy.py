"""twemproxy (nutcracker) in front of three servers."""

import re
import tempfile

from cluster import Process, TextClient, configuration
from failover import Failover

PROXY_PORT = 22121


def setting(text, name):
    return int(re.search(rf"^ *{name}: (\d+)$", text, re.MULTILINE)[1])


def run(subnet, how, fault=None, edit=lambda text: text):
    text = configuration("nutcracker.yml", subnet)
    # `edit` makes a fault. The limits are those of the configuration without the fault.
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file, tempfile.TemporaryDirectory() as folder:
        file.write(edit(text))
        file.flush()
        host = f"{subnet}.9"
        command = ["nutcracker", "-c", file.name, "-o", f"{folder}/log", "-p", f"{folder}/pid"]
        command += ["-a", host, "-s", "22222"]
        proxy = Process(command, host, PROXY_PORT)
        proxy.start()
        try:
            Failover(
                "twemproxy",
                subnet,
                lambda: TextClient(host, PROXY_PORT),
                # Requests of all clients can wait for the same reply, and each fails with it.
                limit=setting(text, "server_failure_limit"),
                retry_seconds=setting(text, "server_retry_timeout") / 1000,
                fault=fault,
            ).run(how)
        finally:
            proxy.kill()
