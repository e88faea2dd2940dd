"""The suites of tests: what cargo builds for each, or which program is one test of its own."""

import collections
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# cargo: the arguments that build the programs of the suite. runner: what runs them, for another architecture.
# commands: programs that end with cargo's "test result:" line and are one group each, with {target} for the target directory.
Suite = collections.namedtuple("Suite", "name about cargo runner commands")


def suite(name, about, cargo=None, runner=(), commands=()):
    return Suite(name, about, cargo, list(runner), list(commands))


SUITES = {entry.name: entry for entry in [
    suite("workspace", "the tests of all crates, beside the programs that they run",
          cargo=["build", "--workspace", "--all-targets"]),
    suite("doc", "what the documentation of the libraries shows compiles and does what it says",
          commands=["cargo test --locked --workspace --doc"]),
]}


def target_directory():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    return json.loads(subprocess.check_output(command, cwd=ROOT))["target_directory"]
