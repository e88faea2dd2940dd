"""The queue: groups of tests run side by side, the longest first."""

import collections
import os
import re
import subprocess
import sys
import threading
import time

# groups: (group, exit status, seconds, seconds of a core). tests: (seconds, name).
Ran = collections.namedtuple("Ran", "groups tests")


def run(groups, jobs):
    """Runs all groups; each one's output is printed in one piece when it has ended."""
    waiting = collections.deque(sorted(groups, key=lambda group: -group.seconds))
    ran, lock = Ran([], []), threading.Lock()

    def work():
        while True:
            with lock:
                if not waiting:
                    return
                group = waiting.popleft()
            begin = time.monotonic()
            status, printed, tests, processor = run_one(group)
            taken = time.monotonic() - begin
            with lock:
                sys.stdout.write(f"\n     Running {group.title} ({taken:.1f} s, {processor:.1f} s of a core)\n")
                sys.stdout.flush()
                sys.stdout.buffer.write(printed)
                sys.stdout.buffer.flush()
                ran.groups.append((group, status, taken, processor))
                ran.tests.extend(tests or [(taken, group.title)])

    workers = [threading.Thread(target=work) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return ran


def run_one(group):
    """The exit status of a group, what it printed, the seconds of each test in it, and those of the processor."""
    process = subprocess.Popen(
        group.command, cwd=group.directory, env={**os.environ, **group.environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    listener = Listener(group, process.stdout)
    listener.start()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    # A server that a failed test left behind may keep the pipe open.
    listener.join(timeout=5)
    return process.returncode, b"".join(listener.printed), listener.tests, usage.ru_utime + usage.ru_stime


class Listener(threading.Thread):
    """Reads what a program prints, and takes the time of each test in it."""

    def __init__(self, group, pipe):
        super().__init__(daemon=True)
        self.program, self.pipe = group.program, pipe
        self.printed, self.tests = [], []

    def run(self):
        begin, name = time.monotonic(), None
        for line in self.pipe:
            self.printed.append(line)
            # With one thread a program prints the name of a test when it begins, and its result at the end of a line.
            if named := re.match(rb"test (\S+)(?: - should panic)? \.\.\. ", line):
                name = named[1].decode()
            if name and re.search(rb"(^|\.\.\. )(ok|FAILED|ignored.*)$", line.rstrip()):
                now = time.monotonic()
                self.tests.append((now - begin, f"{self.program} {name}"))
                begin, name = now, None
