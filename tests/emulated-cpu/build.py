#!/usr/bin/env python3
"""Builds the program that needs no operating system: it has every x86-64 backend in it, as a release has them."""

import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOST = "x86_64-unknown-linux-gnu"
# The program is linked at a fixed address and without any library.
FLAGS = ["relocation-model=static", "target-feature=+crt-static", "link-arg=-nostartfiles", "link-arg=-nodefaultlibs",
         "link-arg=-static", "link-arg=-Wl,--image-base=0x1000000"]


def fail(message):
    sys.exit(f"emulated-cpu: {message}")


def run(*argv, **kwargs):
    done = subprocess.run([str(word) for word in argv], **kwargs)
    if done.returncode:
        fail(f"{' '.join(map(str, argv[:4]))} ... failed ({done.returncode})")


def add_target_directory(parser):
    parser.add_argument("--target-dir", type=pathlib.Path, default=os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def program(target):
    """The ELF file that runs on the emulated CPU."""
    flags = " ".join(f"-C {flag}" for flag in FLAGS)
    target = target / "emulated-cpu"
    # Naming the host as the target keeps the flags away from build scripts.
    run("cargo", "build", "--locked", "--quiet", "--release", "--target", HOST, "--manifest-path", HERE / "Cargo.toml",
        cwd=ROOT, env={**os.environ, "RUSTFLAGS": flags, "CARGO_TARGET_DIR": str(target)})
    return target / HOST / "release/atrest-emulated-cpu"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_target_directory(parser)
    program(parser.parse_args().target_dir.resolve())
