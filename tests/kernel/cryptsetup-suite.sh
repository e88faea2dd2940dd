#!/bin/sh
# One of cryptsetup's own tests in a real kernel, by the programs of the host: cryptsetup-suite.sh TESTS TEST PROGRAM SECONDS.
# The host's root is /share; what the test makes lies in memory. At the end come `RAN` and the lines of the test that ran.
set -eu
root=/share
modprobe dm-mod
modprobe dm-crypt
# No udev loads it when a disk appears.
modprobe sd_mod
# Makes /dev/mapper/control where no udev does.
dmsetup version > /dev/null
mount --bind /dev $root/dev
mkdir -p $root/dev/pts
mount -t devpts devpts $root/dev/pts
mount -t proc proc $root/proc
mount --bind /sys $root/sys
mount -t tmpfs tmpfs $root/mnt
mount -t tmpfs tmpfs $root/run
mkdir -p $root/run/cryptsetup $root/run/lock $root/mnt/bin $root/mnt/guest
cp -r "$root$1" $root/mnt/tests
# What waits for a question in cryptsetup's words waits for no other.
sed -i 's/^EXPECT_TIMEOUT=60/EXPECT_TIMEOUT=10/' "$root/mnt/tests/$2"
cp "$root$3" $root/mnt/bin/cryptsetup
ln -s cryptsetup $root/mnt/bin/veritysetup
ln -s cryptsetup $root/mnt/bin/integritysetup
# Modules are the guest's, and so are the programs that load them.
mount --bind / $root/mnt/guest
for program in modprobe rmmod lsmod modinfo; do
    printf '#!/bin/sh\nexec chroot /mnt/guest %s "$@"\n' $program > $root/mnt/bin/$program
    chmod 755 $root/mnt/bin/$program
done
status=0
chroot $root /bin/bash -c "cd /mnt/tests && export PATH=/mnt/bin:\$PATH CRYPTSETUP_PATH=/mnt/bin TMPDIR=/mnt LANG=C BASH_XTRACEFD=9 &&
    timeout $4 bash -x ./$2 2>&1 9> /mnt/trace" || status=$?
# A test that ran out of time leaves its last line open.
echo
echo "RAN $(sed -n 's/^@*\([0-9][0-9]*\) .*/\1/p' $root/mnt/trace | sort -nu | tr '\n' ' ')"
echo "STATUS $status"
