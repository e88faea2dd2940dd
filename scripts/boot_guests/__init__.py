"""Guests that boot from an encrypted root: volumes, images and machines (used by scripts/boot-guests)."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class BootError(Exception):
    """What a person can do something about."""


def run(*words, **options) -> str:
    """Runs a program and returns what it prints. Fails with its last words."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise BootError(f"{words[0]} fails with {done.returncode}: {(done.stderr.strip() or done.stdout.strip())[-2000:]}")
    return done.stdout
