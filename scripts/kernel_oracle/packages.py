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

# The kernel of Debian 12's last point release, which its archive keeps, for each architecture.
KERNEL_VERSION = "6.1.176-1"
KERNELS = {
    "amd64": ("linux-image-6.1.0-50-amd64", "7b5597492a0a65aee61985a492e6bcc3f2cde830072a0e3b3d8c7e1b90279bd3"),
    "arm64": ("linux-image-6.1.0-50-arm64", "914f75b57a8e165d85fb910c3e2dcc7000a05a9fea3f42f90b26e8dd590d5f06"),
}

# What the guest's programs come from. Of those for amd64 only initramfs.PROGRAMS and their libraries are copied; the
# emulated board of the boot tests takes what it needs from those for arm64.
TOOLS = {
    "amd64": ["busybox-static", "cryptsetup-bin", "dash", "dmsetup", "dosfstools", "e2fsprogs", "ecryptfs-utils", "kmod",
              "mount", "nbd-client", "util-linux", "xfsprogs"],
    "arm64": ["busybox-static", "cryptsetup-bin"],
}


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
    """apt of this host; first with the host's package lists, then with lists of our own, which need no root.

    Another architecture than amd64 has lists of our own only, so that the host needs no foreign architecture.
    """

    def __init__(self, cache, note, architecture="amd64"):
        self.note, self.architecture, self.refreshed = note, architecture, False
        self.state = cache / ("apt" if architecture == "amd64" else f"apt-{architecture}")
        self.options = [] if architecture == "amd64" else self.private()

    def private(self):
        """Options that keep apt's state in the cache."""
        for name in ("lists", "archives"):
            (self.state / name / "partial").mkdir(parents=True, exist_ok=True)
        options = ["-o", f"Dir::State::lists={self.state}/lists", "-o", f"Dir::Cache={self.state}",
                   "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root"]
        if self.architecture != "amd64":
            options += ["-o", f"APT::Architecture={self.architecture}", "-o", f"APT::Architectures={self.architecture}",
                        "-o", "Dir::State::status=/dev/null"]
        return options

    def run(self, program, *argv, **kwargs):
        return run(program, *self.options, *argv, **kwargs)

    def refresh(self):
        """Fetch the lists of the host's sources into the cache. Returns False if that was done before."""
        if self.refreshed:
            return False
        self.refreshed, self.options = True, self.private()
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
        """The package that today's linux-image-amd64, or of another architecture, stands for."""
        name = f"linux-image-{self.architecture}"
        for line in self.run("apt-cache", "depends", "--important", name).splitlines():
            word = line.strip().removeprefix("Depends: ")
            if word != line.strip() and word.startswith("linux-image-"):
                return word
        raise OracleError(f"this host's apt knows no {name}; is it Debian?")


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


def kernel_tree(cache, deb, note, architecture="amd64"):
    """The unpacked kernel: the given .deb, or the pinned one, or with a warning today's."""
    if deb:
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        return unpacked(cache / f"kernel-{digest[:16]}", lambda debs: shutil.copy(deb, debs))
    apt = Apt(cache, note, architecture)
    name, pinned_digest = KERNELS[architecture]

    def pinned(debs):
        note(f"downloading {name} {KERNEL_VERSION}")
        apt.download([f"{name}={KERNEL_VERSION}"], debs)
        [file] = debs.glob("*.deb")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest != pinned_digest:
            raise SystemExit(f"kernel-oracle: {name} {KERNEL_VERSION} has SHA-256 {digest}\n"
                             f"  instead of {pinned_digest}; it is not the pinned kernel, and is not used")

    try:
        return unpacked(cache / f"{name}_{KERNEL_VERSION}", pinned)
    except OracleError as error:
        print(f"kernel-oracle: the pinned kernel {name} {KERNEL_VERSION} is not to be had here:\n  {error}\n"
              "  Going on with this Debian's current kernel, which apt verifies. To use the pinned one, fetch its .deb\n"
              f"  (SHA-256 {pinned_digest}) from snapshot.debian.org and pass it with --kernel-deb.",
              file=sys.stderr, flush=True)
    package = apt.current_kernel()
    return unpacked(cache / package, lambda debs: apt.download([package], debs))


def tools_tree(cache, note, architecture="amd64"):
    """The unpacked programs and libraries of the guest."""
    tools = TOOLS[architecture]
    recipe = hashlib.sha256(" ".join(tools).encode()).hexdigest()[:16]

    def fill(debs):
        note(f"downloading {', '.join(tools)} and their libraries")
        apt = Apt(cache, note, architecture)
        apt.download(tools + apt.closure(tools), debs)

    return unpacked(cache / (f"tools-{recipe}" if architecture == "amd64" else f"tools-{architecture}-{recipe}"), fill)
