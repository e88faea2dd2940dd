"""How long the long tests took once, on two cores. It decides in which order they begin, and nothing else."""

import pathlib

FILE = pathlib.Path(__file__).resolve().parent.parent / "test-seconds"
LONG = 2.0  # seconds; what is shorter is not written down
HEAD = "# Seconds of the long tests on two cores, written by scripts/run-tests --write-seconds: the longest begin first.\n"


def read():
    """Seconds by name."""
    lines = [line.split(maxsplit=1) for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    return {name: float(taken) for taken, name in lines}


def write(tests):
    rows = [f"{taken:.0f} {name}\n" for taken, name in sorted(tests, reverse=True) if taken >= LONG]
    FILE.write_text(HEAD + "".join(rows))
