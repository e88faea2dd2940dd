"""The time limit of a group of tests: a test that hangs is told with what it waits for, and ended with all that it started.

Without it, one hanging test takes the whole run with it: continuous integration ends that from outside, and nobody sees why.
"""

import ctypes
import os
import pathlib
import re
import signal
import tempfile
import time

# A group takes minutes at most where everything is built, on a machine with two cores that does nothing else.
SECONDS = 6 * 3600 if os.environ.get("ATREST_CAMPAIGN") == "full" else 1200
# What marks the processes of a group: they inherit it, whatever sessions they make for themselves.
MARK = "ATREST_TEST_GROUP"
GRACE = 5.0  # seconds for what was killed to go
FRAMES_SHOWN = 12  # of a kernel stack
MNT_FORCE, MNT_DETACH, UMOUNT_NOFOLLOW = 1, 2, 8  # umount2(2)


def processes(mark):
    """Those that a group has started and that still run."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0") and "\nState:\tZ" not in (entry / "status").read_text():
                found.append(entry)
        except OSError:
            continue  # it has gone, or is somebody else's
    return sorted(found, key=lambda entry: int(entry.name))


def report(mark):
    """What the processes of a group are, and what each of their threads waits for."""
    lines = []
    for entry in processes(mark):
        lines.append(f"process {entry.name}: {words(entry / 'cmdline', ' ')}")
        for task in sorted(entry.glob("task/*"), key=lambda task: int(task.name)):
            state = re.search(r"^State:\t(.)", words(task / "status"), re.MULTILINE)
            waits = f"{state[1] if state else '?'} in {words(task / 'wchan') or '-'}, system call {words(task / 'syscall').split(' ')[0]}"
            lines.append(f"    thread {task.name} {words(task / 'comm')}: {waits}")
            lines += [f"        {frame}" for frame in words(task / "stack").splitlines()[:FRAMES_SHOWN]]
    return "\n".join(lines) or "no process of it is left"


def words(file, separator=""):
    try:
        return file.read_bytes().replace(b"\0", separator.encode()).decode(errors="replace").strip()
    except OSError:
        return ""


def end(mark):
    """Kills what a group has left. Returns whether all of it has gone."""
    for entry in processes(mark):
        try:
            os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            pass  # it has gone
    until = time.monotonic() + GRACE
    while processes(mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def free_mounts():
    """Ends the FUSE mounts of tests by force. Who waits for a server that will never answer can't even be killed."""
    ours = os.path.realpath(tempfile.gettempdir()) + "/"
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        place, kind = fields[4], fields[fields.index("-") + 1]
        if kind.split(".")[0] in ("fuse", "fuseblk") and place.startswith(ours):
            # Not umount(8): it looks at the place first, and would wait, too.
            if ctypes.CDLL(None, use_errno=True).umount2(place.encode(), MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW) != 0:
                print(f"run-tests: {place} can't be unmounted: {os.strerror(ctypes.get_errno())}", flush=True)
