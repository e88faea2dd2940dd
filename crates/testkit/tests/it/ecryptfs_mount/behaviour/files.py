"""Contents of files: sizes, appending, mappings, preallocation, holes, files without a name."""

import fcntl
import mmap
import os
import struct
import sys

from check import *

os.chdir(sys.argv[1])
BIG = pattern(300_000)

# Sizes through several open handles.
a = os.open("sizes", os.O_RDWR | os.O_CREAT, 0o644)
b = os.open("sizes", os.O_RDWR)
step("write", os.write, a, BIG)
step("the other handle reads", os.pread, b, 1000, 299_500)
step("cut through the other", os.ftruncate, b, 5000)
step("size of the first", lambda: os.fstat(a).st_size)
step("read behind the end", os.pread, a, 10, 5000)
step("read across the end", os.pread, a, 10, 4995)
step("grow", os.ftruncate, a, 9000)
step("zeros are there", os.pread, b, 9000, 4000)
step("write far behind", os.pwrite, b, b"far", 100_000)
step("all of it", lambda: read("sizes"))
step("cut to nothing", os.truncate, "sizes", 0)
step("nothing is left", os.pread, a, 10, 0)
step("position is behind the end", os.write, a, b"x")
step("a hole in front", lambda: read("sizes"))
step("truncate a directory", os.truncate, ".", 0)
step("negative size", os.ftruncate, a, -1)
step("read only handle", lambda: os.ftruncate(os.open("sizes", os.O_RDONLY), 1))
step("write to a read only handle", lambda: os.write(os.open("sizes", os.O_RDONLY), b"x"))
step("read from a write only handle", lambda: os.read(os.open("sizes", os.O_WRONLY), 1))
step("too large", os.ftruncate, a, 1 << 62)
step("write nothing", os.pwrite, a, b"", 10)
step("write too far", os.pwrite, a, b"x", (1 << 63) - 2)
step("size", lambda: os.fstat(a).st_size)
step("open to be cut", lambda: os.fstat(os.open("sizes", os.O_WRONLY | os.O_TRUNC)).st_size)
step("seen by the first", lambda: os.fstat(a).st_size)
step("exclusive", os.open, "sizes", os.O_CREAT | os.O_EXCL | os.O_RDWR)
step("directory wanted", os.open, "sizes", os.O_DIRECTORY)
step("file of a mode that forbids", lambda: os.write(os.open("sealed", os.O_CREAT | os.O_WRONLY, 0o444), b"abc"))
step("it is read", lambda: read("sealed"))

# Many processes append at once.
write("log")


def append(who):
    log = os.open("log", os.O_WRONLY | os.O_APPEND)
    for number in range(200):
        assert os.write(log, struct.pack(">II", who, number) * 8) == 64


children = []
for who in range(4):
    child = os.fork()
    if child == 0:
        append(who)
        os._exit(0)
    children.append(child)
step("appending processes", lambda: [os.waitpid(child, 0)[1] for child in children])
records = [struct.unpack(">II", read("log")[at:at + 8]) for at in range(0, 800 * 64, 64)]
step("appended", lambda: len(read("log")))
step("all records", lambda: sorted(records) == [(who, number) for who in range(4) for number in range(200)])
step("in order", lambda: all([n for w, n in records if w == who] == list(range(200)) for who in range(4)))
step("none is torn", lambda: all(read("log")[at:at + 8] * 8 == read("log")[at:at + 64] for at in range(0, 6400, 64)))
log = os.open("log", os.O_RDWR | os.O_APPEND)
step("pwrite appends, too", os.pwrite, log, b"tail", 0)
step("the end", os.pread, log, 10, 800 * 64 - 2)

# Preallocation and holes.
f = os.open("room", os.O_RDWR | os.O_CREAT, 0o644)
step("fallocate", fallocate, f, 0, 0, 20_000)
step("size", lambda: os.fstat(f).st_size)
step("zeros", lambda: read("room"))
step("write", os.pwrite, f, BIG[:30_000], 0)
step("inside", fallocate, f, 0, 100, 1000)
step("across the end", fallocate, f, 0, 29_000, 5000)
step("contents", lambda: read("room"))
step("keep size", fallocate, f, KEEP_SIZE, 0, 200_000)
step("keep size behind the end", fallocate, f, KEEP_SIZE, 500_000, 10_000)
step("contents", lambda: read("room"))
step("punch without keep size", fallocate, f, PUNCH_HOLE, 0, 4096)
step("punch", fallocate, f, PUNCH_HOLE | KEEP_SIZE, 3000, 9000)
step("contents", lambda: read("room"))
step("punch across the end", fallocate, f, PUNCH_HOLE | KEEP_SIZE, 33_000, 90_000)
step("punch behind the end", fallocate, f, PUNCH_HOLE | KEEP_SIZE, 133_000, 90_000)
step("contents", lambda: read("room"))
step("zero", fallocate, f, ZERO, 100, 200)
step("zero across the end", fallocate, f, ZERO, 30_000, 10_000)
step("zero and keep size", fallocate, f, ZERO | KEEP_SIZE, 39_999, 10_000)
step("contents", lambda: read("room"))
step("no length", fallocate, f, 0, 0, 0)
step("negative", fallocate, f, 0, -1, 10)
step("too far", fallocate, f, 0, (1 << 63) - 4096, 4096)
step("unknown mode", fallocate, f, 0x4000, 0, 4096)
step("read only", lambda: fallocate(os.open("room", os.O_RDONLY), 0, 0, 100))
step("posix_fallocate", os.posix_fallocate, f, 0, 60_000)
step("size", lambda: os.fstat(f).st_size)
shifted = os.open("shifted", os.O_RDWR | os.O_CREAT, 0o644)
os.write(shifted, BIG)
step("collapse", fallocate, shifted, COLLAPSE, 0, 4096)
step("insert", fallocate, shifted, INSERT, 0, 4096)
write("dense", BIG)
d = os.open("dense", os.O_RDWR)
step("data", os.lseek, d, 5000, os.SEEK_DATA)
step("hole", os.lseek, d, 5000, os.SEEK_HOLE)
step("data behind the end", os.lseek, d, 300_000, os.SEEK_DATA)
step("hole behind the end", os.lseek, d, 300_001, os.SEEK_HOLE)
step("end", os.lseek, d, -10, os.SEEK_END)
step("before the start", os.lseek, d, -10, os.SEEK_SET)

# Copies within the kernel.
c = os.open("copied", os.O_RDWR | os.O_CREAT, 0o644)
step("copy_file_range", os.copy_file_range, d, c, 100_000, 5, 0)
step("copied", lambda: read("copied"))
step("copy behind the end", os.copy_file_range, d, c, 10, 400_000, 0)
step("copy into itself", os.copy_file_range, d, d, 1000, 0, 200_000)
step("copy onto itself", os.copy_file_range, d, d, 1000, 0, 500)
step("sendfile", os.sendfile, c, d, 10, 5000)
step("result", lambda: read("dense"))
step("clone", fcntl.ioctl, c, 0x40049409, d)

# Mappings.
write("mapped", BIG[:10_000])
m = os.open("mapped", os.O_RDWR)
shared = mmap.mmap(m, 10_000)
step("map", lambda: bytes(shared[4990:5010]))
shared[4090:4110] = b"M" * 20
shared[9995:10_000] = b"N" * 5
step("seen before msync", lambda: os.pread(m, 30, 4085))
step("msync", shared.flush)
step("seen after it", lambda: read("mapped"))
os.pwrite(m, b"written", 100)
step("a write is seen in the mapping", lambda: bytes(shared[98:110]))
private = mmap.mmap(m, 10_000, mmap.MAP_PRIVATE)
private[0:5] = b"mine!"
step("private stays private", os.pread, m, 5, 0)
step("grow under it", os.ftruncate, m, 12_288)
step("what was behind the end", os.pread, m, 3000, 9990)
shared.close()
shared = mmap.mmap(m, 12_288)
shared[12_000:12_010] = b"0123456789"
shared.close()
os.fsync(m)
step("written through it", lambda: read("mapped")[11_990:12_020])
other = os.open("mapped", os.O_RDONLY)
step("map for writing what is read only", lambda: mmap.mmap(other, 100, mmap.MAP_SHARED))
os.truncate("mapped", 50)
step("cut", lambda: read("mapped"))
os.truncate("mapped", 5000)
step("grown again", lambda: read("mapped"))

# Files that have lost their name.
u = os.open("lost", os.O_RDWR | os.O_CREAT, 0o644)
os.write(u, BIG[:9000])
step("unlink", os.unlink, "lost")
step("looks", looks, u)
step("write", os.pwrite, u, b"more", 20_000)
step("truncate", os.ftruncate, u, 20_002)
step("chmod", os.fchmod, u, 0o600)
step("xattr", os.setxattr, u, "user.one", b"1")
step("its xattrs", os.listxattr, u)
step("times", os.utime, u, (5, 6))
step("fsync", os.fsync, u)
step("looks", looks, u)
step("reads", lambda: os.pread(u, 30_000, 0))
step("a name again", link_open, u, "found")
write("lost", b"another")
step("another has the name", lambda: (read("lost"), os.fstat(u).st_size))
step("open again", lambda: os.read(os.open(f"/proc/self/fd/{u}", os.O_RDONLY), 20))
os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")
step("make in a directory without a name", lambda: write("x"))
step("list a directory without a name", os.listdir, ".")
os.chdir(sys.argv[1])

# Beside the page cache, and at once.
direct = os.open("direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
page = mmap.mmap(-1, 8192)
page[:] = BIG[:8192]
step("write direct", os.pwritev, direct, [page], 0)
step("read direct", lambda: (os.preadv(direct, [page], 4096), bytes(page[:4096]) == BIG[4096:8192]))
step("read by the cache", lambda: read("direct") == BIG[:8192])
for flag in ("O_SYNC", "O_DSYNC"):
    step(flag, lambda: write("synced", BIG[:10_000], flags=os.O_WRONLY | os.O_CREAT | getattr(os, flag)))
step("contents", lambda: read("synced") == BIG[:10_000])
step("sync_file_range", lambda: call(libc.sync_file_range(a, ctypes.c_long(0), ctypes.c_long(0), 7)))
step("fdatasync", os.fdatasync, a)
step("unnamed", lambda: os.close(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)))

# Locks between processes.
fcntl.flock(a, fcntl.LOCK_EX)
fcntl.lockf(b, fcntl.LOCK_EX, 10, 100)


def contend():
    mine = os.open("sizes", os.O_RDWR)
    step("flock", fcntl.flock, mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    step("lockf on the same bytes", fcntl.lockf, mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 105)
    step("lockf on others", fcntl.lockf, mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 205)


in_child(contend)
