"""Stubs of systemctl and deb-systemd-invoke in a tree. They log their arguments, so that tests see what the maintainer scripts
do on a machine with systemd."""

import os
import re

from service import expanded, read_unit

SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >>/run/stubs/calls
case "$*" in
*"list-units slabwise-steer@"*)
    grep "^slabwise-steer@" /run/stubs/units
    ;;
*list-units*)
    grep -v "^slabwise-steer@" /run/stubs/units
    ;;
"show --property=MainPID --value slabwise.service")
    for process in /proc/[0-9]*; do
        if [ /usr/bin/slabwise -ef "$process/exe" ]; then
            echo "${process#/proc/}"
            exit
        fi
    done
    echo 0
    ;;
"show --property=Environment --value slabwise.service")
    cat /run/stubs/environment
    ;;
esac
"""

INVOKE = """#!/bin/sh
echo "deb-systemd-invoke $*" >>/run/stubs/calls
case "$*" in
"reload slabwise.service")
    exec setpriv --reuid=slabwise --regid=slabwise --clear-groups --no-new-privs /bin/sh /run/stubs/reload
    ;;
esac
"""


def path_of(tree, name):
    return os.path.join(tree, "run/stubs", name)


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def install(tree):
    """Makes the stubs, and the folder by which scripts recognize systemd."""
    for folder in ["run/systemd/system", "run/stubs"]:
        os.makedirs(os.path.join(tree, folder), exist_ok=True)
    write(os.path.join(tree, "usr/local/bin/systemctl"), SYSTEMCTL, 0o755)
    write(os.path.join(tree, "usr/local/bin/deb-systemd-invoke"), INVOKE, 0o755)
    running(tree, [])
    reload_with(tree, "exit 1\n")
    set_environment(tree, {})
    calls(tree)


def running(tree, units):
    """Sets the units that systemctl lists as active."""
    write(path_of(tree, "units"), "".join(f"{unit} loaded active running Cache server\n" for unit in units))


def reload_with(tree, script):
    """Sets what a reload of slabwise.service does."""
    write(path_of(tree, "reload"), script)


def set_environment(tree, variables):
    """Sets the environment variables that slabwise.service sets."""
    write(path_of(tree, "environment"), " ".join(f"{name}={value}" for name, value in variables.items()) + "\n")


def reload_service(tree, service):
    """From now on, a reload of slabwise.service runs the command of the unit for this service."""
    unit = read_unit(tree, "slabwise.service")
    script = re.fullmatch(r'/bin/sh -c "(.*)"', unit["ExecReload"][-1])[1]
    variables = {**service.environment, "MAINPID": str(service.main)}
    set_environment(tree, service.environment)
    lines = [f"export {name}='{value}'\n" for name, value in variables.items()]
    reload_with(tree, "".join(lines) + expanded(unit, script) + "\n")


def calls(tree):
    """Returns the calls that act on a unit since the last time, and forgets them."""
    path = path_of(tree, "calls")
    lines = open(path, encoding="utf-8").read().splitlines() if os.path.exists(path) else []
    write(path, "", 0o666)
    return [re.sub(r"'", "", it) for it in lines if it.startswith("deb-systemd-invoke ")]
