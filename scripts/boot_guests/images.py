"""Kernels, and images that unlock: atrest-init alone, and what the generators of a Debian make, with our hooks."""

import os
import pathlib
import shutil

from kernel_oracle import guest, packages

from . import ROOT, BootError, run

PEERS = ROOT / "target" / "peers" / "boot-guests"
DEBIAN = PEERS / "debian"
PACKAGES = ("initramfs-tools,dracut-core,dracut-network,busybox,udev,e2fsprogs,linux-image-cloud-amd64,kmod,procps,systemd,cryptsetup,"
            "cryptsetup-initramfs,clevis-initramfs,clevis-tpm2,libtss2-esys-3.0.2-0,libtss2-tcti-device0,libtss2-rc0,libtss2-mu0,iproute2,"
            "isc-dhcp-client,iputils-arping,tpm2-tools")
DRIVERS = ("virtio_pci", "virtio_blk", "virtio_net")
# What Debian's cryptsetup and clevis put into every image.
STOCK_HOOKS = ("hooks/cryptroot", "hooks/clevis", "scripts/local-top/clevis", "scripts/local-top/cryptroot", "scripts/local-block/cryptroot")


class Own:
    """Debian's kernel without a Debian, and images that are atrest-init and modules."""

    def __init__(self, place: pathlib.Path, cache: pathlib.Path, atrest: pathlib.Path, init: pathlib.Path):
        self.place, self.atrest, self.init = place, atrest, init
        with packages.locked(cache):
            tree = packages.kernel_tree(cache, None, lambda _: None)
            self.busybox = packages.tools_tree(cache, lambda _: None) / "usr" / "bin" / "busybox"
        [self.modules] = tree.glob("usr/lib/modules/*")
        [image] = tree.glob("boot/vmlinuz-*")
        self.kernel = unpacked(image, place)

    def image(self, name: str, crypttab: str, *files: pathlib.Path) -> pathlib.Path:
        table, image = self.place / f"{name}.crypttab", self.place / f"{name}.initrd"
        table.write_text(crypttab)
        words = [word for driver in DRIVERS for word in ("--module", driver)]
        words += [word for file in files for word in ("--file", f"{file}:/etc/{file.name}")]
        run(self.atrest, "initramfs", "build", "--output", image, "--init", self.init, "--modules-dir", self.modules, "--crypttab", table, *words)
        return image


def unpacked(image: pathlib.Path, place: pathlib.Path) -> pathlib.Path:
    """The kernel as QEMU enters it at once."""
    kernel = place / f"{image.name}.elf"
    kernel.write_bytes(guest.uncompressed(image) or image.read_bytes())
    return kernel


class Debian:
    """Debian 12 with both generators, as debootstrap installs it once. Needs root."""

    def __init__(self, place: pathlib.Path, init: pathlib.Path):
        if os.geteuid() != 0:
            raise BootError("images by the generators are made in a Debian of their own, which needs root")
        self.place = place
        if not (DEBIAN / "installed").exists():
            shutil.rmtree(DEBIAN, ignore_errors=True)
            PEERS.mkdir(parents=True, exist_ok=True)
            run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", DEBIAN)
            (DEBIAN / "installed").touch()
        self.version = next((DEBIAN / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")
        self.kernel = unpacked(DEBIAN / "boot" / f"vmlinuz-{self.version}", place)
        shutil.copy(init, DEBIAN / "usr" / "sbin" / "atrest-init")
        self.install(ROOT / "contrib" / "initramfs-tools" / "hook", "etc/initramfs-tools/hooks/atrest")
        self.install(ROOT / "contrib" / "initramfs-tools" / "local-top", "etc/initramfs-tools/scripts/local-top/atrest")
        for script in (ROOT / "contrib" / "dracut" / "90atrest").iterdir():
            self.install(script, f"usr/lib/dracut/modules.d/90atrest/{script.name}")

    def install(self, source: pathlib.Path, place: str) -> None:
        target = DEBIAN / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        target.chmod(0o755)

    def initramfs_tools(self, name: str, crypttab: str) -> pathlib.Path:
        """An image by mkinitramfs, with atrest in the place of Debian's cryptsetup."""
        with packages.locked(PEERS):
            for hook in STOCK_HOOKS:
                park(DEBIAN / "usr" / "share" / "initramfs-tools" / hook)
            return self.made(name, crypttab, "mkinitramfs", "-o", f"/boot/{name}", self.version)

    def dracut(self, name: str, crypttab: str) -> pathlib.Path:
        """An image by dracut, with systemd, and with atrest in the place of its unlocker."""
        words = ["--force", "--no-hostonly", "--no-hostonly-cmdline", "--kver", self.version,
                 "--add", "systemd network-legacy atrest", "--omit", "crypt tpm2-tss", "--add-drivers", " ".join((*DRIVERS, "dm_crypt"))]
        with packages.locked(PEERS):
            return self.made(name, crypttab, "dracut", *words, f"/boot/{name}")

    def made(self, name: str, crypttab: str, *words) -> pathlib.Path:
        (DEBIAN / "etc" / "crypttab").write_text(crypttab)
        run("chroot", DEBIAN, *words)
        image = self.place / name
        shutil.move(DEBIAN / "boot" / name, image)
        return image


def park(script: pathlib.Path) -> None:
    """Takes a script away from mkinitramfs, which lists all files that lie there."""
    if script.exists():
        parked = DEBIAN / "parked" / script.relative_to(DEBIAN)
        parked.parent.mkdir(parents=True, exist_ok=True)
        script.rename(parked)
