"""The guest's file system: a cpio archive of programs, libraries and kernel modules."""

import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

from . import OracleError
from .packages import run

# Globs below the packages' merged /usr.
PROGRAMS = [
    "sbin/cryptsetup", "sbin/integritysetup", "sbin/veritysetup", "sbin/dmsetup", "sbin/blkid", "sbin/losetup", "sbin/nbd-client",
    "sbin/blkdiscard", "sbin/mke2fs", "sbin/mkfs.ext4", "sbin/e2fsck", "sbin/tune2fs", "sbin/debugfs", "sbin/dumpe2fs",
    "sbin/mkfs.fat", "sbin/fsck.fat", "bin/dash", "bin/kmod",
    "bin/ecryptfs-add-passphrase", "bin/ecryptfs-insert-wrapped-passphrase-into-keyring",
    # It speaks fscrypt's ioctls.
    "sbin/xfs_io",
    # Loaded with dlopen, hence invisible to the dependency scan.
    "lib/x86_64-linux-gnu/ossl-modules/legacy.so", "lib/x86_64-linux-gnu/libgcc_s.so.1",
    "lib/x86_64-linux-gnu/libsoftokn3.so", "lib/x86_64-linux-gnu/libfreebl*3.so",
]
# Kernel modules, each with what it depends on: names, or directories below kernel/ that end in `/`.
MODULES = [
    "crypto/", "arch/x86/crypto/", "lib/crypto/",
    "dm-mod", "dm-crypt", "dm-integrity", "dm-verity", "ext4", "ecryptfs", "vfat", "nls_ascii", "nls_cp437", "nls_utf8", "loop", "nbd",
    "virtio_pci", "virtio_blk", "virtio_console", "virtio_net", "virtio-rng", "9p", "9pnet_virtio",
]
# Loaded by /init in this order before the script starts.
BOOT_MODULES = ["virtio_pci", "virtio_console", "virtio-rng", "virtio_blk", "loop", "9pnet_virtio", "9p"]

INIT = r"""#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C DM_DISABLE_UDEV=1 TERM=dumb
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
while read -r module; do
    busybox insmod "$module" || echo "oracle: cannot load $module"
done < /oracle/boot-modules
busybox mkdir -p /dev/pts /dev/shm
busybox mount -t tmpfs tmpfs /tmp
busybox mount -t tmpfs tmpfs /run
busybox mkdir -p /run/cryptsetup /run/lock
busybox ln -sf /proc/self/fd /dev/fd
port() { # the device node of a named virtio-serial port
    for name in /sys/class/virtio-ports/*/name; do
        if [ "$(busybox cat "$name")" = "$1" ]; then
            name=${name%/name}
            echo "/dev/${name##*/}"
        fi
    done
}
. /oracle/environment
if [ "$ORACLE_SHARE" = 1 ]; then
    # Nobody else writes to it meanwhile, so the guest may keep what it has read: each start of a program reads all of it.
    busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose share /share \
        || echo "oracle: cannot mount the share"
fi
if [ "$ORACLE_NET" = 1 ]; then
    /usr/sbin/modprobe virtio_net
    busybox ip link set lo up
    busybox ip link set eth0 up
    busybox ip address add 10.0.2.15/24 dev eth0
fi
out=$(port out) err=$(port err) status=$(port status)
cd /root
/oracle/run < /dev/null > "$out" 2> "$err"
code=$?
cd /
busybox sync
echo "$code" > "$status"
busybox umount -a -r 2> /dev/null
busybox poweroff -f
"""


class Cpio:
    """Writes a `newc` archive, as the kernel unpacks them.

    The kernel also takes several of them one after the other: the large constant one is cached, and the small one
    with the script is appended at each run.
    """

    def __init__(self, stream, first_inode=1):
        self.stream, self.inode, self.names = stream, first_inode, set()

    def _entry(self, name, mode, data=b""):
        encoded = name.encode() + b"\0"
        self.inode += 1
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
        self.stream.write(header + b"\0" * (-len(header) % 4))
        self.stream.write(data + b"\0" * (-len(data) % 4))

    def _claim(self, name):
        """Add the missing parents of a new name. False if the name is taken."""
        if name in self.names:
            return False
        parent = os.path.dirname(name)
        if parent:
            self.directory(parent)
        self.names.add(name)
        return True

    def directory(self, name):
        if self._claim(name):
            self._entry(name, stat.S_IFDIR | 0o755)

    def symlink(self, name, target):
        if self._claim(name):
            self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def file(self, name, data, mode=0o644):
        if self._claim(name):
            self._entry(name, stat.S_IFREG | mode, data)

    def copy(self, name, source):
        source = pathlib.Path(source)
        self.file(name, source.read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)

    def close(self):
        self._entry("TRAILER!!!", 0)


class Modules:
    """The modules of one kernel, found by name, ordered with dependencies first."""

    def __init__(self, directory):
        self.depends, self.by_name = {}, {}
        for line in (directory / "modules.dep").read_text().splitlines():
            path, _, rest = line.partition(":")
            self.depends[path] = rest.split()
            self.by_name[self.key(path)] = path
        self.builtin = {self.key(path) for path in (directory / "modules.builtin").read_text().split()}

    @staticmethod
    def key(path):
        return os.path.basename(path).partition(".ko")[0].replace("-", "_")

    def closure(self, wanted):
        order = {}  # a dict keeps the order of insertion

        def visit(path, pending=()):
            if path in pending:
                raise OracleError(f"the kernel's modules depend on each other in a circle: {path}")
            if path not in order:
                for dependency in self.depends[path]:
                    visit(dependency, (*pending, path))
                order[path] = True

        for name in wanted:
            if name.endswith("/"):
                for path in sorted(self.depends):
                    if path.startswith("kernel/" + name):
                        visit(path)
            elif self.key(name) in self.by_name:
                visit(self.by_name[self.key(name)])
            elif self.key(name) not in self.builtin:
                raise OracleError(f"this kernel has no module called {name}")
        return list(order)


def libraries(usr, programs):
    """The shared libraries that the programs load: name to file in the package tree."""
    search = usr / "lib/x86_64-linux-gnu"
    found = {}
    for program in programs:
        with open(program, "rb") as stream:
            if stream.read(4) != b"\x7fELF":
                continue
        listing = subprocess.run([search / "ld-linux-x86-64.so.2", "--library-path", search, "--list", program],
                                 capture_output=True, text=True).stdout
        for line in listing.splitlines():
            soname, arrow, rest = line.strip().partition(" => ")
            if arrow:
                if rest.startswith("not found"):
                    raise OracleError(f"{program.name} needs {soname}, which no package of the guest provides")
                path = pathlib.Path(rest.rpartition(" (")[0])
                if search in path.parents:
                    found[soname] = path
                elif path.name != "ld-linux-x86-64.so.2":
                    raise OracleError(f"{program.name} would load {soname} from outside the packages: {path}")
    return found


def depmod(usr, directory):
    """Index a .../lib/modules/VERSION directory with the packaged depmod."""
    search = usr / "lib/x86_64-linux-gnu"
    run(search / "ld-linux-x86-64.so.2", "--library-path", search, "--argv0", "depmod", usr / "bin/kmod",
        "-b", directory.parent.parent.parent, directory.name)


def build(stream, kernel_modules, usr, more_modules):
    """Write the constant part of the initramfs. `kernel_modules` is the package's .../lib/modules/VERSION."""
    if not (kernel_modules / "modules.dep").exists():
        depmod(usr, kernel_modules)
    modules = Modules(kernel_modules)
    packaged = modules.closure(MODULES + more_modules)
    boot = modules.closure(BOOT_MODULES)

    archive = Cpio(stream)
    for name in ("dev", "proc", "sys", "tmp", "run", "share", "mnt", "root"):
        archive.directory(name)
    for name in ("bin", "sbin", "lib", "lib64"):
        archive.symlink(name, f"usr/{name}")
    add_programs(archive, usr)
    add_modules(archive, kernel_modules, packaged, usr)
    archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    archive.file("etc/group", b"root:x:0:\n")
    archive.symlink("etc/mtab", "/proc/self/mounts")
    listing = "".join(f"/lib/modules/{kernel_modules.name}/{path}\n" for path in boot)
    archive.file("oracle/boot-modules", listing.encode())
    archive.file("init", INIT.encode(), 0o755)
    archive.close()


def add_programs(archive, usr):
    programs = []
    for pattern in PROGRAMS:
        matches = sorted(usr.glob(pattern))
        if not matches:
            raise OracleError(f"no package of the guest provides /usr/{pattern}")
        for path in matches:
            archive.copy(f"usr/{path.relative_to(usr)}", path)
            programs.append(path)
    for soname, path in sorted(libraries(usr, programs).items()):
        archive.copy(f"usr/lib/x86_64-linux-gnu/{soname}", path)
    archive.copy("usr/lib64/ld-linux-x86-64.so.2", usr / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
    for name in ("modprobe", "depmod", "modinfo"):
        archive.symlink(f"usr/sbin/{name}", "/usr/bin/kmod")
    # Not busybox's own shell, which would prefer its applets to the programs in PATH.
    archive.symlink("usr/bin/sh", "dash")
    archive.copy("usr/bin/busybox", usr / "bin/busybox")
    for applet in run(usr / "bin/busybox", "--list").split():
        if not {f"usr/bin/{applet}", f"usr/sbin/{applet}"} & archive.names:
            archive.symlink(f"usr/bin/{applet}", "busybox")
    archive.copy("etc/mke2fs.conf", usr.parent / "etc/mke2fs.conf")


def add_modules(archive, kernel_modules, packaged, usr):
    """Add the modules with an index of exactly these, so that the kernel's own requests ("crypto-xts(aes)") resolve."""
    with tempfile.TemporaryDirectory(prefix="kernel-oracle-") as scratch:
        trimmed = pathlib.Path(scratch, "lib/modules", kernel_modules.name)
        for path in packaged:
            (trimmed / path).parent.mkdir(parents=True, exist_ok=True)
            os.symlink(kernel_modules / path, trimmed / path)
        for path in (*kernel_modules.glob("modules.builtin*"), kernel_modules / "modules.order"):
            shutil.copy(path, trimmed)
        depmod(usr, trimmed)
        for path in sorted(trimmed.rglob("*")):
            if path.is_file():
                archive.copy(f"usr/lib/modules/{kernel_modules.name}/{path.relative_to(trimmed)}", path)


def script_archive(stream, text, arguments, share, net):
    """Write the part that changes: the script, its arguments, and what to set up for it."""
    if not text.startswith(b"#!"):
        text = b"#!/bin/sh\n" + text
    quoted = " ".join("'" + argument.replace("'", "'\\''") + "'" for argument in arguments)
    archive = Cpio(stream, first_inode=1 << 20)
    archive.file("oracle/environment", f"ORACLE_SHARE={int(share)}\nORACLE_NET={int(net)}\n".encode())
    archive.file("oracle/script", text, 0o755)
    archive.file("oracle/run", f"#!/bin/sh\nexec /oracle/script {quoted}\n".encode(), 0o755)
    archive.close()
