#!/bin/sh
# One of cryptsetup's own tests in a real kernel, by the programs of the host: cryptsetup-suite.sh TESTS TEST PROGRAM SECONDS.
# The host's root is /share; what the test makes lies in memory.
set -eu
root=/share
modprobe dm-mod
modprobe dm-crypt
# Makes /dev/mapper/control where no udev does.
dmsetup version > /dev/null
mount --bind /dev $root/dev
mount -t proc proc $root/proc
mount --bind /sys $root/sys
mount -t tmpfs tmpfs $root/mnt
mount -t tmpfs tmpfs $root/run
mkdir -p $root/run/cryptsetup $root/run/lock $root/mnt/bin
cp -r "$root$1" $root/mnt/tests
cp "$root$3" $root/mnt/bin/cryptsetup
status=0
chroot $root /bin/bash -c "cd /mnt/tests && export CRYPTSETUP_PATH=/mnt/bin TMPDIR=/mnt LANG=C && timeout $4 bash ./$2 2>&1" || status=$?
echo "STATUS $status"
