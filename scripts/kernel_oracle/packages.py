"""Fetches Debian packages without installing them, and without root."""

import fcntl
import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from . import OracleError

# The kernel of Debian 12's last point release, which its archive keeps.
KERNEL = "linux-image-6.1.0-50-amd64"
KERNEL_VERSION = "6.1.176-1"
KERNEL_SHA256 = "7b5597492a0a65aee61985a492e6bcc3f2cde830072a0e3b3d8c7e1b90279bd3"

# What the guest's programs come from.  Only initramfs.PROGRAMS and their libraries are copied.
TOOLS = ["busybox-static", "cryptsetup-bin", "dash", "dmsetup", "dosfstools", "e2fsprogs", "kmod", "mount",
         "nbd-client", "util-linux"]


def run(*argv, **kwargs):
    """Run a program of the host and return its standard output."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run([str(word) for word in argv], capture_output=True, stdin=subprocess.DEVNULL, text=True,
                              env=environment, **kwargs)
    except FileNotFoundError as error:
        raise OracleError(f"{argv[0]} is not installed; run scripts/setup") from error
    if done.returncode:
        detail = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise OracleError("\n  ".join([f"{' '.join(map(str, argv[:3]))} ... failed ({done.returncode})", *detail]))
    return done.stdout


@contextlib.contextmanager
def locked(directory):
    """Keeps other runs out of the cache while one fills it."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Apt:
    """apt of this host; first with the host's package lists, then with lists of our own, which need no root."""

    def __init__(self, cache, note):
        self.cache, self.note, self.options = cache, note, []

    def run(self, program, *argv, **kwargs):
        return run(program, *self.options, *argv, **kwargs)

    def refresh(self):
        """Fetch the lists of the host's sources into the cache. Returns False if that was done before."""
        if self.options:
            return False
        state = self.cache / "apt"
        (state / "lists/partial").mkdir(parents=True, exist_ok=True)
        (state / "archives/partial").mkdir(parents=True, exist_ok=True)
        self.options = ["-o", f"Dir::State::lists={state}/lists", "-o", f"Dir::Cache={state}",
                        "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root"]
        self.note("fetching package lists")
        self.run("apt-get", "update")
        return True

    def download(self, packages, directory):
        """Download packages, given as NAME or NAME=VERSION."""
        argv = ["-o", "APT::Sandbox::User=root", "download", *packages]
        try:
            self.run("apt-get", *argv, cwd=directory)
        except OracleError:
            if not self.refresh():
                raise
            self.run("apt-get", *argv, cwd=directory)

    def closure(self, tools):
        """The library packages that the tools depend on.

        An empty dpkg status makes apt plan an installation from scratch, which lists them all
        whatever happens to be installed on this host.
        """
        argv = ["-s", "-o", "Dir::State::status=/dev/null", "-o", "Debug::NoLocking=1", "install",
                "--no-install-recommends", *tools]
        try:
            plan = self.run("apt-get", *argv)
        except OracleError:
            if not self.refresh():
                raise
            plan = self.run("apt-get", *argv)
        names = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
        return [name for name in names if name.startswith(("lib", "zlib")) and not name.startswith(("libperl", "libpython"))]

    def current_kernel(self):
        """The package that today's linux-image-amd64 stands for."""
        for line in self.run("apt-cache", "depends", "--important", "linux-image-amd64").splitlines():
            word = line.strip().removeprefix("Depends: ")
            if word != line.strip() and word.startswith("linux-image-"):
                return word
        raise OracleError("this host's apt knows no linux-image-amd64; is it Debian?")


def unpacked(directory, fill):
    """The tree of packages in `directory`; `fill(debs)` downloads them when it is not there yet."""
    if not directory.is_dir():
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix="fetch-") as scratch:
            debs, root = pathlib.Path(scratch, "debs"), pathlib.Path(scratch, "root")
            debs.mkdir()
            root.mkdir()
            fill(debs)
            for deb in sorted(debs.glob("*.deb")):
                run("dpkg-deb", "-x", deb, root)
            merge_usr(root)
            root.rename(directory)
    return directory


def merge_usr(root):
    """Fold a package tree's /bin, /sbin and /lib* into /usr, as Debian itself does."""
    for name in ("bin", "sbin", "lib", "lib64"):
        top = root / name
        if top.is_dir() and not top.is_symlink():
            shutil.copytree(top, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(top)
            top.symlink_to(f"usr/{name}")


def kernel_tree(cache, deb, note):
    """The unpacked kernel: the given .deb, or the pinned one, or with a warning today's."""
    if deb:
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        return unpacked(cache / f"kernel-{digest[:16]}", lambda debs: shutil.copy(deb, debs))
    apt = Apt(cache, note)

    def pinned(debs):
        note(f"downloading {KERNEL} {KERNEL_VERSION}")
        apt.download([f"{KERNEL}={KERNEL_VERSION}"], debs)
        [file] = debs.glob("*.deb")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest != KERNEL_SHA256:
            raise SystemExit(f"kernel-oracle: {KERNEL} {KERNEL_VERSION} has SHA-256 {digest}\n"
                             f"  instead of {KERNEL_SHA256}; it is not the pinned kernel, and is not used")

    try:
        return unpacked(cache / f"{KERNEL}_{KERNEL_VERSION}", pinned)
    except OracleError as error:
        print(f"kernel-oracle: the pinned kernel {KERNEL} {KERNEL_VERSION} is not to be had here:\n  {error}\n"
              "  Going on with this Debian's current kernel, which apt verifies. To use the pinned one, fetch its .deb\n"
              f"  (SHA-256 {KERNEL_SHA256}) from snapshot.debian.org and pass it with --kernel-deb.",
              file=sys.stderr, flush=True)
    package = apt.current_kernel()
    return unpacked(cache / package, lambda debs: apt.download([package], debs))


def tools_tree(cache, note):
    """The unpacked programs and libraries of the guest."""
    recipe = hashlib.sha256(" ".join(TOOLS).encode()).hexdigest()[:16]

    def fill(debs):
        note(f"downloading {', '.join(TOOLS)} and their libraries")
        apt = Apt(cache, note)
        apt.download(TOOLS + apt.closure(TOOLS), debs)

    return unpacked(cache / f"tools-{recipe}", fill)
