"""The suites of tests: what cargo builds for each, or which program is one test of its own."""

import collections
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# cargo: the arguments that build the test programs. runner: what runs them, for another architecture.
# prepare, command: built before any test runs, and run as one group of tests; {target} is the target directory.
Suite = collections.namedtuple("Suite", "name about cargo runner prepare command")

CIPHER = ["--package", "atrest-cipher"]


def suite(name, about, cargo=(), runner=(), prepare="", command=""):
    return Suite(name, about, list(cargo), list(runner), prepare.split(), command.split())


SUITES = {entry.name: entry for entry in [
    suite("workspace", "the tests of all crates, beside the programs that they run",
          cargo=["build", "--workspace", "--all-targets"]),
    suite("doc-tests", "what the documentation of the libraries shows compiles and does what it says",
          command="cargo test --locked --workspace --doc"),
    suite("aarch64", "the ARMv8 backend, on emulated hardware that has its instructions",
          cargo=["test", "--no-run", "--target", "aarch64-unknown-linux-musl", *CIPHER, "--tests"],
          runner=["qemu-aarch64", "-cpu", "max"]),
    # Code for tests takes more of the stack, and more is wiped there.
    suite("stack", "no run of a release goes below what is wiped of the stack",
          cargo=["test", "--no-run", "--release", *CIPHER, "--test", "stack"]),
    # Nothing reads what is overwritten, so a compiler could leave it out.
    suite("wipes", "the code of a release wipes the stack", command="scripts/wipes --target-dir {target}"),
    suite("vaes", "the backends for AVX-512, VAES and SHA, on an emulated CPU that has them",
          prepare="tests/emulated-cpu/build.py --target-dir {target}",
          command="tests/emulated-cpu/run --target-dir {target}"),
    suite("generated-code", "no secret in a jump or an address where valgrind can't look",
          prepare="tests/emulated-cpu/build.py --target-dir {target}",
          command="tests/emulated-cpu/generated-code --target-dir {target}"),
]}


def target_directory():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    return json.loads(subprocess.check_output(command, cwd=ROOT))["target_directory"]
