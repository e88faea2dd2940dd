"""What root and another user may do to each other's files. Run as root."""

import os
import stat
import sys

from check import *

os.chdir(sys.argv[1])
USER, GROUP, OTHER = 1234, 1235, 1236


def as_user(action):
    def run():
        os.setgroups([OTHER])
        os.setresgid(GROUP, GROUP, GROUP)
        os.setresuid(USER, USER, USER)
        action()
    in_child(run)


def owners(path):
    found = os.lstat(path)
    return f"{found.st_mode:o} {found.st_uid} {found.st_gid}"


write("public", b"public")
write("private", b"private", mode=0o600)
write("group", b"group", mode=0o640)
os.chown("group", 0, OTHER)
write("open", b"open")
os.chmod("open", 0o666)
os.mkdir("own")
os.chown("own", USER, GROUP)
os.mkdir("common")
os.chmod("common", 0o1777)
write("common/roots", b"r")
os.chmod("common/roots", 0o666)
os.mkdir("team")
os.chown("team", 0, OTHER)
os.chmod("team", 0o2775)


def user():
    step("read public", read, "public")
    step("read private", read, "private")
    step("read by a group", read, "group")
    step("write public", write, "public")
    step("write open", write, "open", b"user", flags=os.O_WRONLY)
    step("create beside", write, "new")
    step("mkdir beside", os.mkdir, "new")
    step("unlink", os.unlink, "public")
    step("rename", os.rename, "public", "common/public")
    step("create", write, "own/file", b"mine")
    step("owners", owners, "own/file")
    step("mkdir", os.mkdir, "own/d")
    step("owners", owners, "own/d")
    step("symlink", os.symlink, "file", "own/s")
    step("owners", owners, "own/s")
    step("fifo", os.mkfifo, "own/p")
    step("owners", owners, "own/p")
    step("a file of a strange mode", write, "own/sealed", b"sealed", mode=0o000)
    step("read it", read, "own/sealed")
    step("its size", lambda: os.stat("own/sealed").st_size)
    step("open it up", lambda: (os.chmod("own/sealed", 0o600), read("own/sealed")))
    step("write only", lambda: (os.chmod("own/sealed", 0o200), write("own/sealed", b"new", flags=os.O_WRONLY)))
    step("in the group's directory", lambda: (write("team/file"), owners("team/file"), os.mkdir("team/d"), owners("team/d")))
    step("sticky: unlink", os.unlink, "common/roots")
    step("sticky: rename", os.rename, "common/roots", "common/mine")
    step("sticky: own", lambda: (write("common/mine"), os.unlink("common/mine")))
    step("chmod", os.chmod, "open", 0o600)
    step("chown", os.chown, "own/file", 0, -1)
    step("to a group of mine", os.chown, "own/file", -1, OTHER)
    step("to another", os.chown, "own/file", -1, 0)
    step("set-group-ID of a foreign group", lambda: (os.chmod("own/file", 0o2755), owners("own/file")))
    step("times now", os.utime, "open")
    step("times", os.utime, "open", (1, 1))
    step("device", os.mknod, "own/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    step("xattr", os.setxattr, "own/file", "user.a", b"1")
    step("xattr of a foreign file", os.setxattr, "public", "user.a", b"1")
    step("trusted", os.setxattr, "own/file", "trusted.a", b"1")
    step("truncate", os.truncate, "public", 0)
    step("access", lambda: [os.access(name, mode) for name in ("public", "private", "own") for mode in (os.R_OK, os.W_OK, os.X_OK)])


as_user(user)
step("root sees it", lambda: (owners("own/file"), read("own/file")))

# Set-ID bits do not outlive a change by somebody who may not set them; root's changes they do.
CHANGES = {
    "write": lambda: write("set", b"xyz", flags=os.O_WRONLY),
    "append": lambda: write("set", b"xyz", flags=os.O_WRONLY | os.O_APPEND),
    "truncate": lambda: os.truncate("set", 2),
    "open to be cut": lambda: write("set", b"", flags=os.O_WRONLY | os.O_TRUNC),
    "fallocate": lambda: fallocate(os.open("set", os.O_WRONLY), 0, 0, 100_000),
    "punch": lambda: fallocate(os.open("set", os.O_WRONLY), PUNCH_HOLE | KEEP_SIZE, 0, 1),
    "copy": lambda: os.copy_file_range(os.open("open", os.O_RDONLY), os.open("set", os.O_WRONLY), 3),
}
for mode in (0o6777, 0o2767, 0o4666):
    for name, change in CHANGES.items():
        for who in ("root", "user"):
            write("set", b"some bytes")
            os.chmod("set", mode)
            if who == "user":
                as_user(change)
            else:
                change()
            step(f"{name} of {mode:o} by {who}", lambda: owners("set"))
            write("set", b"")
write("capable", b"1")
CAPABILITY = bytes.fromhex("0100000200000000000000000000000000000000")
for name, change in {
    "write": lambda: write("capable", b"xyz", flags=os.O_WRONLY),
    "truncate": lambda: os.truncate("capable", 1),
    "chown": lambda: os.chown("capable", 1, 1),
    "chmod": lambda: os.chmod("capable", 0o755),
}.items():
    os.setxattr("capable", "security.capability", CAPABILITY)
    change()
    step(f"capabilities after {name}", os.listxattr, "capable")
