#!/bin/sh
# A volume as /dev/vda, served over vhost-user or, once closed, opened by dm-crypt. $1 says what is done with it:
#   write   make a file system, write files and leave their sums in /share, then go on writing until the guest is killed
#   again   check the file system and the files, write one more, discard what is free
#   crypt   open the image by cryptsetup and check everything
set -eu
fail() { echo "$*"; dmesg | tail -n 5; exit 1; }
mkdir -p /mnt/volume
check() { # DEVICE
    e2fsck -f -n "$1" > /tmp/fsck || fail "$(cat /tmp/fsck)"
    mount -t ext4 "$1" /mnt/volume
    (cd /mnt/volume && sha256sum -c /share/sums > /tmp/sums) || fail "$(cat /tmp/sums)"
}
queue=/sys/block/vda/queue
case $1 in
write)
    [ "$(cat /sys/block/vda/serial)" = secret ] || fail "the disk is called $(cat /sys/block/vda/serial)"
    [ "$(cat $queue/write_cache)" = "write back" ] || fail "the kernel does not flush"
    [ "$(cat $queue/logical_block_size)" = 4096 ] || fail "blocks of $(cat $queue/logical_block_size) bytes"
    [ "$(ls /sys/block/vda/mq | wc -l)" = "$(nproc)" ] || fail "$(ls /sys/block/vda/mq | wc -l) queues"
    mke2fs -q -t ext4 /dev/vda "$(($(blockdev --getsize64 /dev/vda) / 1024 - 1024))K"
    mount -t ext4 /dev/vda /mnt/volume
    for i in 1 2 3 4; do
        dd if=/dev/urandom of=/mnt/volume/$i bs=64k count=$((i * 16)) 2> /dev/null &
    done
    wait
    cp /bin/busybox /mnt/volume/busybox
    (cd /mnt/volume && sha256sum 1 2 3 4 busybox > /share/sums)
    sync
    touch /share/written
    while :; do
        dd if=/dev/urandom of=/mnt/volume/lost bs=64k count=64 conv=fsync 2> /dev/null
    done
    ;;
again)
    # What the killed guest had under way is in the journal.
    e2fsck -f -y /dev/vda > /tmp/fsck || [ $? = 1 ] || fail "$(cat /tmp/fsck)"
    check /dev/vda
    # A program on it runs, with the volume as its root.
    [ "$(chroot /mnt/volume /busybox echo runs)" = runs ] || fail "a program in the volume does not run"
    rm -f /mnt/volume/lost
    echo "written after a kill" > /mnt/volume/5
    (cd /mnt/volume && sha256sum 5 >> /share/sums)
    fstrim /mnt/volume || fail "nothing can be discarded"
    umount /mnt/volume
    # The last MiB is no part of the file system.
    blkdiscard -z -o $(($(blockdev --getsize64 /dev/vda) - 1048576)) /dev/vda || fail "zeroes can't be written"
    ;;
crypt)
    modprobe dm-crypt
    cryptsetup open --key-file /share/key /dev/vda volume
    [ "$(tail -c 1048576 /dev/mapper/volume | tr -d '\0' | wc -c)" = 0 ] || fail "the end holds no zeroes"
    check /dev/mapper/volume
    umount /mnt/volume
    cryptsetup close volume
    ;;
esac
echo "$1: good"
