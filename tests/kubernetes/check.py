"""Checks manifests of Kubernetes: check.py SLABWISE FILE...

Resources of Kubernetes itself have to match their schema. The schema of a ServiceMonitor is not part of Kubernetes, so
this script checks that it selects a Service with the ports that it names. Each container that runs the server has to have
the memory that `slabwise memory` prints for its arguments, and its probes have to use the port of the HTTP server.
"""

import re
import subprocess
import sys

import kubernetes_validate
import yaml

SERVER = "/usr/bin/slabwise"


def schema_problems(resource):
    try:
        kubernetes_validate.validate(resource, "1.37", strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{'.'.join(map(str, error.path))}: {error.message}"


def is_selected(labels, resource):
    found = resource["metadata"].get("labels", {})
    return all(found.get(name) == value for name, value in labels.items())


def monitor_problems(monitor, resources):
    """Checks that Services match the selector, and have the ports of the endpoints."""
    labels = monitor["spec"]["selector"]["matchLabels"]
    services = [it for it in resources if it["kind"] == "Service" and is_selected(labels, it)]
    if not services:
        yield f"no Service has the labels {labels}"
    if not monitor["spec"]["endpoints"]:
        yield "spec.endpoints is empty"
    for service in services:
        ports = {port["name"] for port in service["spec"]["ports"]}
        for endpoint in monitor["spec"]["endpoints"]:
            if endpoint["port"] not in ports:
                yield f"the Service {service['metadata']['name']} has no port {endpoint['port']}"


def selector_problems(resource):
    """Checks that the pods of a StatefulSet have the labels that it selects."""
    labels = resource["spec"]["selector"]["matchLabels"]
    if not is_selected(labels, resource["spec"]["template"]):
        yield f"the pods do not have the labels {labels}"


def memory_problems(slabwise, container):
    printed = subprocess.run([slabwise, "memory", *container["args"]], check=True, capture_output=True, text=True).stdout
    values = dict(re.findall(r"^(request|limit): (\S+)$", printed, re.MULTILINE))
    for kind, name in ("requests", "request"), ("limits", "limit"):
        given = container["resources"][kind]["memory"]
        if given != values[name]:
            yield f"resources.{kind}.memory is {given}, but slabwise memory prints {values[name]}"


def probe_problems(container):
    """Checks that the probes use the HTTP address of the arguments, and the path of their kind."""
    address = re.search(r"http=[^,]*:(\d+)", " ".join(container["args"]))
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe, path in ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz"), ("startupProbe", "/healthz"):
        get = container[probe]["httpGet"]
        if get["path"] != path:
            yield f"{probe}: the path is {get['path']}, and not {path}"
        if address is None or ports.get(get["port"], get["port"]) != int(address[1]):
            yield f"{probe}: the port {get['port']} is not that of -o http"


def problems(slabwise, resource, resources):
    if resource["kind"] == "ServiceMonitor":
        yield from monitor_problems(resource, resources)
        return
    yield from schema_problems(resource)
    if resource["kind"] != "StatefulSet":
        return
    yield from selector_problems(resource)
    for container in resource["spec"]["template"]["spec"]["containers"]:
        if container.get("command") == [SERVER]:
            yield from memory_problems(slabwise, container)
            yield from probe_problems(container)


def main(slabwise, *paths):
    by_path = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            by_path[path] = list(yaml.safe_load_all(file))
    resources = [resource for found in by_path.values() for resource in found]
    count = 0
    servers = 0
    for path, found in by_path.items():
        for resource in found:
            name = f"{path}: {resource['kind']} {resource['metadata']['name']}"
            reasons = list(problems(slabwise, resource, resources))
            count += len(reasons)
            for reason in reasons:
                print(f"{name}: {reason}")
            if not reasons:
                print(f"{name}: valid")
            pods = resource["spec"].get("template", {}).get("spec", {})
            servers += sum(it.get("command") == [SERVER] for it in pods.get("containers", []))
    if servers == 0:
        sys.exit(f"no container of {', '.join(paths)} has the command {SERVER}, so no memory limit was checked")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
