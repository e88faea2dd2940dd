"""Names, links, special files, attributes and times."""

import os
import socket
import stat
import sys

from check import *

os.chdir(sys.argv[1])

# Renames.
write("a", b"A")
write("b", b"B")
step("no replace onto another", rename, "a", "b", NOREPLACE)
step("no replace onto nothing", rename, "a", "c", NOREPLACE)
step("exchange", rename, "b", "c", EXCHANGE)
step("exchanged", lambda: (read("b"), read("c")))
step("exchange with nothing", rename, "b", "nothing", EXCHANGE)
step("both flags", rename, "b", "c", NOREPLACE | EXCHANGE)
step("unknown flag", rename, "b", "c", 64)
os.makedirs("d/e")
write("d/e/f", b"F")
step("exchange a file and a directory", rename, "b", "d/e", EXCHANGE)
step("looks", lambda: (looks("b"), looks("d/e"), read("b/f"), read("d/e")))
step("and back", rename, "b", "d/e", EXCHANGE)
step("directory into itself", os.rename, "d", "d/e/x")
step("file onto a directory", os.rename, "b", "d")
step("directory onto a file", os.rename, "d", "b")
step("directory onto a full one", lambda: (os.mkdir("g"), os.rename("g", "d")))
step("directory onto an empty one", lambda: (os.mkdir("h"), os.rename("d", "h")))
step("moved", lambda: read("h/e/f"))
step("onto itself", os.rename, "b", "b")
step("what is not there", os.rename, "nothing", "b")
step("below a file", os.rename, "b", "c/x")
opened = os.open("h/e/f", os.O_RDWR)
step("move what is open", os.rename, "h/e", "moved")
step("it is the same", lambda: (os.write(opened, b"f"), read("moved/f")))
step("replace what is open", os.rename, "c", "moved/f")
step("it is as it was", lambda: (os.pread(opened, 5, 0), read("moved/f"), os.fstat(opened).st_nlink))

# Hard links.
write("one", b"1")
step("link", os.link, "one", "two")
step("same file", lambda: os.stat("one").st_ino == os.stat("two").st_ino)
step("looks", lambda: looks("one"))
write("two", b"22")
step("size by the other name", lambda: (looks("one"), read("one")))
step("link onto a name", os.link, "one", "b")
step("link a directory", os.link, "h", "i")
step("rename onto a link of itself", os.rename, "one", "two")
step("both stay", lambda: (looks("one"), looks("two")))
step("unlink one", os.unlink, "one")
step("looks", lambda: looks("two"))
os.symlink("two", "soft")
step("link a link", lambda: os.link("soft", "soft2", follow_symlinks=False))
step("its looks", lambda: (looks("soft2"), os.readlink("soft2")))

# Symbolic links.
step("target", os.readlink, "soft")
step("readlink of a file", os.readlink, "two")
step("through it", read, "soft")
step("dangling", lambda: (os.symlink("/nowhere/at all", "dangling"), os.readlink("dangling"), os.path.exists("dangling")))
step("loop", lambda: (os.symlink("loop", "loop"), os.open("loop", os.O_RDONLY)))
step("not followed", os.open, "soft", os.O_RDONLY | os.O_NOFOLLOW)
step("empty target", os.symlink, "", "empty")
step("onto a name", os.symlink, "x", "b")
step("long target", lambda: (os.symlink("t" * 2000, "long"), len(os.readlink("long")), looks("long")))
step("target too long", os.symlink, "t" * 4096, "longer")

# Names.
longest = os.statvfs(".").f_namemax
step("longest name", write, "n" * longest)
step("one more", write, "n" * (longest + 1))
step("it can't be found", os.stat, "n" * (longest + 1))
step("link of that name", os.symlink, "x", "n" * (longest + 1))
step("directory of that name", os.mkdir, "n" * (longest + 1))
step("rename to it", os.rename, "b", "n" * (longest + 1))
step("fifo of that name", os.mkfifo, "n" * (longest + 1))
step("far too long", os.stat, "n" * 256)
step("any bytes", lambda: (write(b"\xff\x01\n \\", b"odd"), read(b"\xff\x01\n \\")))
step("looks encrypted", lambda: (write("ECRYPTFS_FNEK_ENCRYPTED.x", b"e"), read("ECRYPTFS_FNEK_ENCRYPTED.x")))
step("empty name", os.open, "", os.O_RDONLY)
os.mkdir("many")
for number in range(400):
    write(f"many/{number:04} with a name that is not very short")
step("all are listed", lambda: len(os.listdir("many")))
step("listed once", lambda: len(set(os.listdir("many"))))
step("numbers of entries", lambda: all(e.inode() == os.lstat(e.path).st_ino for e in os.scandir("many")))


def remove_while_listing():
    removed = 0
    for entry in os.scandir("many"):
        os.unlink(entry.path)
        removed += 1
    return removed, os.listdir("many")


step("removed while they are listed", remove_while_listing)
step("rmdir", os.rmdir, "many")
step("rmdir of a file", os.rmdir, "b")
step("unlink of a directory", os.unlink, "h")
step("rmdir of a full directory", os.rmdir, "moved")
step("links of a directory", lambda: (os.makedirs("p/q"), os.mkdir("p/r"), looks("p"), os.rmdir("p/q"), looks("p")))

# Special files.
step("fifo", os.mkfifo, "fifo", 0o640)
step("looks", lambda: looks("fifo"))
reading = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
writing = os.open("fifo", os.O_WRONLY | os.O_NONBLOCK)
step("through the fifo", lambda: (os.write(writing, b"through"), os.read(reading, 10)))
bound = socket.socket(socket.AF_UNIX)
step("bind", bound.bind, "socket")
step("looks", lambda: looks("socket"))
bound.listen(1)
client = socket.socket(socket.AF_UNIX)
step("connect", client.connect, "socket")
step("talk", lambda: (bound.accept()[0].send(b"hello"), client.recv(10)))
step("open a socket", os.open, "socket", os.O_RDONLY)
if os.geteuid() == 0:
    for name, kind in (("character", stat.S_IFCHR), ("block", stat.S_IFBLK)):
        step(name, os.mknod, name, kind | 0o600, os.makedev(1, 3))
        step("looks", looks, name)
    step("large numbers", os.mknod, "large", stat.S_IFCHR | 0o600, os.makedev(2048, 70_000))
    step("looks", looks, "large")
step("a file by mknod", os.mknod, "made", stat.S_IFREG | 0o600)
step("it is empty", lambda: (read("made"), looks("made")))
step("it is written", lambda: (write("made", b"now"), read("made")))
step("rename a fifo", os.rename, "fifo", "made")
step("looks", lambda: looks("made"))

# Extended attributes.
write("x", b"x")
step("get what is not there", os.getxattr, "x", "user.a")
step("set", os.setxattr, "x", "user.a", b"1")
step("create", os.setxattr, "x", "user.a", b"2", os.XATTR_CREATE)
step("replace", os.setxattr, "x", "user.a", b"2", os.XATTR_REPLACE)
step("replace what is not there", os.setxattr, "x", "user.b", b"2", os.XATTR_REPLACE)
step("create", os.setxattr, "x", "user.b", b"", os.XATTR_CREATE)
step("get", lambda: (os.getxattr("x", "user.a"), os.getxattr("x", "user.b")))
step("list", lambda: sorted(os.listxattr("x")))
step("large", lambda: (os.setxattr("x", "user.c", pattern(2500)), os.getxattr("x", "user.c")))
step("too large", os.setxattr, "x", "user.d", b"v" * 65_537)
step("long name", os.setxattr, "x", "user." + "n" * 251, b"")
step("small buffer", lambda: call(libc.getxattr(b"x", b"user.c", ctypes.create_string_buffer(10), 10)))
step("small buffer for the list", lambda: call(libc.listxattr(b"x", ctypes.create_string_buffer(10), 10)))
step("remove", os.removexattr, "x", "user.b")
step("remove again", os.removexattr, "x", "user.b")
step("list", lambda: sorted(os.listxattr("x")))
step("no namespace", os.setxattr, "x", "a", b"1")
step("unknown namespace", os.setxattr, "x", "other.a", b"1")
step("on a directory", lambda: (os.setxattr("h", "user.a", b"d"), os.getxattr("h", "user.a"), os.listxattr("h")))
step("on a fifo", os.setxattr, "made", "user.a", b"1")
step("on a link", lambda: os.setxattr("soft", "user.a", b"1", follow_symlinks=False))
step("listed of a link", lambda: os.listxattr("soft", follow_symlinks=False))
step("kept by a rename", lambda: (os.rename("x", "y"), os.getxattr("y", "user.a")))
if os.geteuid() == 0:
    step("trusted", lambda: (os.setxattr("y", "trusted.a", b"t"), os.getxattr("y", "trusted.a")))
    step("capabilities", lambda: (os.setxattr("y", "security.capability", bytes.fromhex("0100000200000000000000000000000000000000")), len(os.getxattr("y", "security.capability"))))
    step("a write takes them", lambda: (write("y", b"new"), sorted(os.listxattr("y"))))

# Permissions and times.
step("chmod", lambda: (os.chmod("y", 0o4711), looks("y")))
os.umask(0o027)
step("umask", lambda: (write("masked", mode=0o666), os.mkdir("maskedd", 0o777), looks("masked"), looks("maskedd")))
os.umask(0o022)
step("times", lambda: (os.utime("y", ns=(1_234_567_890_123_456_789, 987_654_321)), os.stat("y").st_atime_ns, os.stat("y").st_mtime_ns))
step("times before 1970", lambda: (os.utime("y", ns=(-1_500_000_000, -1)), os.stat("y").st_atime_ns, os.stat("y").st_mtime_ns))
step("times of a link", lambda: (os.utime("soft", ns=(5, 7), follow_symlinks=False), os.lstat("soft").st_mtime_ns, os.stat("soft").st_mtime_ns == 7))


def moves_on(what, action, path):
    os.utime(path, ns=(0, 0))
    action()
    return what + (" moved" if os.stat(path).st_mtime_ns else " stayed")


step("mtime by a write", lambda: moves_on("mtime", lambda: write("y", b"z", flags=os.O_WRONLY), "y"))
step("mtime by a read", lambda: moves_on("mtime", lambda: read("y"), "y"))
step("mtime by a cut", lambda: moves_on("mtime", lambda: os.truncate("y", 0), "y"))
step("mtime by chmod", lambda: moves_on("mtime", lambda: os.chmod("y", 0o600), "y"))
step("mtime of a directory", lambda: moves_on("mtime", lambda: write("h/new"), "h"))
if os.geteuid() == 0:
    step("chown", lambda: (os.chmod("y", 0o6755), os.chown("y", 1, 2), looks("y"), os.stat("y").st_uid, os.stat("y").st_gid))
    step("chown of a link", lambda: (os.lchown("soft", 3, 4), os.lstat("soft").st_uid, os.stat("soft").st_uid))
    step("group of a directory", lambda: (os.chown("h", 0, 7), os.chmod("h", 0o2755), write("h/by"), os.mkdir("h/sub"), os.stat("h/by").st_gid, looks("h/sub"), os.stat("h/sub").st_gid))
space = os.statvfs(".")
step("statfs", lambda: (space.f_bsize > 0, space.f_blocks > 0, 0 < space.f_bavail <= space.f_bfree <= space.f_blocks, space.f_files > 0))
