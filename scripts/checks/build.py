"""Builds the programs of a suite and divides their tests into groups, each of which one process runs."""

import collections
import functools
import json
import os
import subprocess

from . import seconds
from .suites import ROOT, target_directory

# A group of tests that one process runs, one after the other. seconds: what it will take.
Group = collections.namedtuple("Group", "suite program title command directory environment seconds")
Program = collections.namedtuple("Program", "name path directory environment")

GROUP_LEN = 25  # short tests that share a process
SHORT = 0.1     # seconds that a test takes of which nothing is known


class Failed(Exception):
    """What stands in the way of running a suite."""


def groups(suite, known, only=None):
    """All groups of a suite, built and ready to run; `known` says how many seconds long tests take."""
    found = []
    for program in programs(suite) if suite.cargo else []:
        waiting = []
        for test in tests(suite, program, only):
            taken = known.get(f"{program.name} {test}", SHORT)
            if taken >= seconds.LONG:
                found.append(group(suite, program, [test], taken))
            else:
                waiting.append(test)
        for first in range(0, len(waiting), GROUP_LEN):
            some = waiting[first:first + GROUP_LEN]
            found.append(group(suite, program, some, SHORT * len(some)))
    if suite.command and (not only or only in suite.name):
        if suite.prepare and subprocess.run(filled(suite.prepare), cwd=ROOT).returncode != 0:
            raise Failed(f"`{' '.join(suite.prepare)}` failed")
        # No more is known of these than how long the whole takes.
        taken = known.get(suite.name, SHORT)
        found.append(Group(suite.name, suite.name, suite.name, filled(suite.command), ROOT, {}, taken))
    return found


def group(suite, program, names, taken):
    title = f"{program.name} {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    command = [*suite.runner, program.path, "--exact", *names, "--nocapture", "--test-threads", "1"]
    return Group(suite.name, program.name, title, command, program.directory, program.environment, taken)


def programs(suite):
    """The test programs that cargo builds for a suite."""
    command = ["cargo", *suite.cargo, "--locked", "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if built.returncode != 0:
        raise Failed(f"`{' '.join(command)}` failed")
    found = []
    for message in map(json.loads, built.stdout.splitlines()):
        if message["reason"] != "compiler-artifact" or not message["profile"]["test"] or not message["executable"]:
            continue
        directory = os.path.dirname(message["manifest_path"])
        source = os.path.relpath(message["target"]["src_path"], directory)
        # The name says the suite where one program is in two of them.
        package = os.path.basename(directory) if suite.name == "workspace" else f"{suite.name}: {os.path.basename(directory)}"
        environment = {"CARGO": "cargo", "CARGO_MANIFEST_DIR": directory, **program_to_test()}
        found.append(Program(f"{package} {source}", message["executable"], directory, environment))
    return found


@functools.cache
def program_to_test():
    """What tests start: the `atrest` that the suite `workspace` has built. A build of that package alone has other features."""
    return {"ATREST_BIN": os.environ.get("ATREST_BIN", f"{target_directory()}/debug/atrest")}


def tests(suite, program, only):
    """The names of a program's tests."""
    listed = subprocess.run([*suite.runner, program.path, "--list", "--format", "terse"], stdout=subprocess.PIPE, text=True)
    if listed.returncode != 0:
        raise Failed(f"{program.name} does not list its tests")
    names = [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]
    return [name for name in names if not only or only in f"{program.name} {name}"]


def filled(words):
    return [word.format(target=target_directory()) for word in words]
