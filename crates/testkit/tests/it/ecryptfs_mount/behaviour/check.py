"""Does to a directory what programs do, and writes down how each step ended: one line per step, the same for every filesystem."""

import ctypes
import errno
import hashlib
import os
import stat
import sys
import traceback

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
KEEP_SIZE, PUNCH_HOLE, COLLAPSE, ZERO, INSERT, UNSHARE = 1, 2, 8, 16, 32, 64
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4


def shown(value):
    if isinstance(value, (bytes, bytearray)):
        text = bytes(value)
        if len(text) > 40:
            return f"{len(text)} bytes {hashlib.sha256(text).hexdigest()[:12]}"
        return repr(text)
    return repr(value)


def step(name, action, *arguments, **options):
    """Does it and writes down the result, or the error's name. Returns the result."""
    result = None
    try:
        result = action(*arguments, **options)
        line = shown(result)
    except OSError as error:
        line = errno.errorcode.get(error.errno, str(error.errno))
    except Exception:
        traceback.print_exc()
        raise
    print(f"{name}: {line}", flush=True)
    return result


def call(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def fallocate(fd, mode, offset, length):
    call(libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def rename(old, new, flags):
    call(libc.renameat2(AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), flags))


def link_open(fd, new):
    """Gives an open file a name."""
    call(libc.linkat(AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, new.encode(), 0x400))


def write(path, data=b"", mode=0o644, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    fd = os.open(path, flags, mode)
    try:
        done = 0
        while done < len(data):
            done += os.write(fd, data[done:])
    finally:
        os.close(fd)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def looks(path):
    """What anybody may rely on of a file."""
    found = os.lstat(path) if isinstance(path, str) else os.fstat(path)
    size = found.st_size if not stat.S_ISDIR(found.st_mode) else "-"
    device = f" {found.st_rdev:x}" if found.st_rdev else ""
    return f"{found.st_mode:o} {found.st_nlink} {size}{device}"


def pattern(length, seed=1):
    block = hashlib.sha256(str(seed).encode()).digest()
    return (block * (length // 32 + 1))[:length]


def in_child(action):
    """Runs it in a process of its own, whose failure is ours."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            sys.stdout.flush()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0, "a child failed"
