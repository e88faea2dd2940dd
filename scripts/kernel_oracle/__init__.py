"""Parts of scripts/kernel-oracle: a Debian kernel under emulation that runs one script.

    packages   the pinned kernel and the programs of the guest, fetched as Debian packages
    initramfs  the guest's file system, made of them
    guest      QEMU, the disks, and the way back for output and exit status
"""


class OracleError(Exception):
    """A failure of the oracle rather than of the script it was asked to run."""
