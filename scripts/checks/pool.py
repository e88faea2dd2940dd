"""The queue: groups of tests run side by side, the longest first, while others are still being built."""

import collections
import os
import re
import subprocess
import sys
import threading
import time

from . import limit

# groups: (group, exit status, seconds, seconds of a core). tests: (seconds, name). failed: (name, lines that it printed).
Ran = collections.namedtuple("Ran", "groups tests failed")


class Queue:
    """Groups that wait, the longest first, until all are there and gone."""

    def __init__(self):
        self.groups, self.complete, self.changed = [], False, threading.Condition()

    def add(self, groups):
        with self.changed:
            self.groups = sorted(self.groups + groups, key=lambda group: -group.seconds)
            self.changed.notify_all()

    def close(self):
        """No more will come."""
        with self.changed:
            self.complete = True
            self.changed.notify_all()

    def take(self, which):
        """The longest (0) or the shortest (-1), or None at the end."""
        with self.changed:
            self.changed.wait_for(lambda: self.groups or self.complete)
            return self.groups.pop(which) if self.groups else None


def run(batches, jobs):
    """Runs all groups, so many side by side, and one more of the short ones: most of these wait for something now and then.

    `batches` yields lists of them and may take its time: what is there runs meanwhile. Each group's output is printed in one
    piece when it has ended.
    """
    queue, ran, lock, broken = Queue(), Ran([], [], []), threading.Lock(), []

    def fill():
        try:
            for groups in batches:
                queue.add(groups)
        except BaseException as error:  # a thread would keep it to itself
            broken.append(error)
        finally:
            queue.close()

    def work(which):
        while group := queue.take(which):
            begin = time.monotonic()
            status, listener, processor = run_one(group)
            taken = time.monotonic() - begin
            with lock:
                sys.stdout.write(f"\n     Running {group.title} ({taken:.1f} s, {processor:.1f} s of a core)\n")
                sys.stdout.flush()
                sys.stdout.buffer.write(b"".join(listener.printed))
                sys.stdout.buffer.flush()
                ran.groups.append((group, status, taken, processor))
                ran.tests.extend(listener.tests or [(taken, group.title)])
                if status != 0:
                    # A program that is no test program, or that died, has printed all it says of itself last.
                    ran.failed.extend(listener.failed or [(f"{group.title} (exit status {status})", listener.printed)])

    def fill_and_work():
        # Who builds keeps a core busy, and runs no tests until that is done.
        fill()
        work(0)

    workers = [threading.Thread(target=fill_and_work)]
    workers += [threading.Thread(target=work, args=[which]) for which in [0] * (jobs - 1) + [-1]]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if broken:
        raise broken[0]
    return ran


def run_one(group):
    """The exit status of a group, who listened to it, and the seconds of a core that it took."""
    mark = f"{os.getpid()}-{id(group)}"
    process = subprocess.Popen(
        group.command, cwd=group.directory, env={**os.environ, **group.environment, limit.MARK: mark},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    listener = Listener(group, process.stdout)
    listener.start()
    watch = threading.Timer(limit.SECONDS, end_hanging, [mark, listener])
    watch.start()
    _, status, usage = os.wait4(process.pid, 0)
    watch.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    # A server that a test left behind would keep the pipe open, or what it serves from being removed.
    for left in limit.processes(mark):
        listener.say(f"{listener.program} left running: {limit.words(left / 'cmdline', ' ')}\n")
    limit.end(mark)
    listener.join(timeout=5)
    return process.returncode, listener, usage.ru_utime + usage.ru_stime


def end_hanging(mark, listener):
    """Says what a group waits for, and ends it: the run goes on, and fails."""
    running = f" in {listener.name_of_test}" if listener.name_of_test else ""
    listener.say(f"\n{listener.program}{running} did not end within {limit.SECONDS} s\n{limit.report(mark)}\n")
    if not limit.end(mark):
        limit.free_mounts()
        limit.end(mark)


class Listener(threading.Thread):
    """Reads what a program prints, takes the time of each test in it, and keeps what the failed ones printed."""

    def __init__(self, group, pipe):
        super().__init__(daemon=True)
        self.program, self.pipe = group.program, pipe
        self.printed, self.tests, self.failed = [], [], []
        self.name_of_test = None  # that is running

    def say(self, text):
        """Adds to what the program prints, and prints it at once: the program may never end."""
        self.printed += [line.encode() for line in text.splitlines(keepends=True)]
        print(text, flush=True)

    def run(self):
        begin, name, first = time.monotonic(), None, 0
        for line in self.pipe:
            self.printed.append(line)
            # With one thread a program prints the name of a test when it begins, and its result at the end of a line.
            if named := re.match(rb"test (\S+)(?: - should panic)? \.\.\. ", line):
                name, first = named[1].decode(), len(self.printed) - 1
                self.name_of_test = name
            if name and (ended := re.search(rb"(?:^|\.\.\. )(ok|FAILED|ignored.*)$", line.rstrip())):
                now, title = time.monotonic(), f"{self.program} {name}"
                self.tests.append((now - begin, title))
                if ended[1] == b"FAILED":
                    self.failed.append((title, self.printed[first:]))
                begin, name = now, None
                self.name_of_test = None
