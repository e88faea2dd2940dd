"""Kernels, and images that unlock: atrest-init alone, and what the generators of a Debian make, with our hooks or with Debian's own."""

import os
import pathlib
import shutil

from kernel_oracle import guest, initramfs, packages

from . import ROOT, BootError, run

PEERS = ROOT / "target" / "peers" / "boot-guests"
DEBIAN = PEERS / "debian"
PACKAGES = ("initramfs-tools,dracut-core,dracut-network,busybox,udev,e2fsprogs,linux-image-cloud-amd64,kmod,procps,systemd,cryptsetup,"
            "cryptsetup-initramfs,clevis-initramfs,clevis-tpm2,libtss2-esys-3.0.2-0,libtss2-tcti-device0,libtss2-rc0,libtss2-mu0,iproute2,"
            "isc-dhcp-client,iputils-arping,tpm2-tools")
DRIVERS = ("virtio_pci", "virtio_blk", "virtio_net")
# Of USB and of a security key.
KEY_DRIVERS = ("xhci_pci", "usbhid", "hid_generic")
# What Debian's cryptsetup and clevis put into every image.
STOCK_HOOKS = ("hooks/cryptroot", "hooks/clevis", "scripts/local-top/clevis", "scripts/local-top/cryptroot", "scripts/local-block/cryptroot")

OUR_HOOKS = ("hooks/atrest", "scripts/local-top/atrest")


class Own:
    """Debian's kernel without a Debian, and images that are atrest-init and modules."""

    def __init__(self, place: pathlib.Path, cache: pathlib.Path, atrest: pathlib.Path, init: pathlib.Path):
        self.place, self.atrest, self.init = place, atrest, init
        with packages.locked(cache):
            tree = packages.kernel_tree(cache, None, lambda _: None)
            tools = packages.tools_tree(cache, lambda _: None) / "usr"
            [self.modules] = tree.glob("usr/lib/modules/*")
            if not (self.modules / "modules.dep").exists():
                initramfs.depmod(tools, self.modules)
        self.busybox = tools / "bin" / "busybox"
        [image] = tree.glob("boot/vmlinuz-*")
        self.kernel = unpacked(image, place)

    def image(self, name: str, crypttab: str, *more: str) -> pathlib.Path:
        table, image = self.place / f"{name}.crypttab", self.place / f"{name}.initrd"
        table.write_text(crypttab)
        words = [word for driver in (*DRIVERS, *more) for word in ("--module", driver)]
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
        self.modules = DEBIAN / "usr" / "lib" / "modules" / self.version
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

    def initramfs_tools(self, name: str, crypttab: str, stock: bool = False) -> pathlib.Path:
        """An image by mkinitramfs, with Debian's cryptsetup and clevis or with atrest."""
        with packages.locked(PEERS):
            return self.made_by_hooks(name, crypttab, stock)

    def made_by_hooks(self, name: str, crypttab: str, stock: bool) -> pathlib.Path:
        share, etc = DEBIAN / "usr" / "share" / "initramfs-tools", DEBIAN / "etc" / "initramfs-tools"
        for hook in STOCK_HOOKS:
            runs(share / hook, stock)
        for hook in OUR_HOOKS:
            runs(etc / hook, not stock)
        return self.made(name, crypttab, "mkinitramfs", "-o", f"/boot/{name}", self.version)

    def dracut(self, name: str, crypttab: str, stock: bool = False) -> pathlib.Path:
        """An image by dracut, with systemd and its unlocker or with systemd and atrest."""
        modules = ("systemd", "crypt", "tpm2-tss") if stock else ("systemd", "network-legacy", "atrest")
        # What finds nothing of its own in this Debian ends dracut where nobody has asked for a network.
        omitted = ("--omit", "atrest network network-legacy ifcfg" if stock else "crypt tpm2-tss")
        words = ["--force", "--no-hostonly", "--no-hostonly-cmdline", "--kver", self.version, "--add", " ".join(modules), *omitted,
                 "--add-drivers", " ".join((*DRIVERS, "dm_crypt"))]
        if stock:
            words += ["--include", "/etc/crypttab", "/etc/crypttab"]
        with packages.locked(PEERS):
            return self.made(name, crypttab, "dracut", *words, f"/boot/{name}")

    def made(self, name: str, crypttab: str, *words) -> pathlib.Path:
        (DEBIAN / "etc" / "crypttab").write_text(crypttab)
        run("chroot", DEBIAN, *words)
        image = self.place / name
        shutil.move(DEBIAN / "boot" / name, image)
        return image


def runs(script: pathlib.Path, whether: bool) -> None:
    """Whether mkinitramfs finds the script: it lists all files that lie there."""
    parked = DEBIAN / "parked" / script.relative_to(DEBIAN)
    source, target = (parked, script) if whether else (script, parked)
    # What was installed since is newer than what was parked before it.
    if source.exists() and not (whether and target.exists()):
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
