#!/bin/sh
# The kernel reads: for every line "NAME DEVICE TYPE" of /share/volumes open the volume, check the file system, compare
# its files with /share/NAME.sums, and write one file more.
set -eu
while read -r name device type; do
    cryptsetup open --key-file /share/key "$device" volume
    case $type in
        ext4) e2fsck -f -n /dev/mapper/volume > /tmp/fsck || { cat /tmp/fsck; exit 1; } ;;
        vfat) fsck.fat -n /dev/mapper/volume > /tmp/fsck || { cat /tmp/fsck; exit 1; } ;;
    esac
    mkdir -p /mnt/volume
    mount -t "$type" /dev/mapper/volume /mnt/volume
    (cd /mnt/volume && sha256sum -c "/share/$name.sums" > /tmp/sums) || { cat /tmp/sums; exit 1; }
    echo "the kernel was here" > /mnt/volume/kernel.txt
    umount /mnt/volume
    cryptsetup close volume
    echo "$name: read [$(cut -d ' ' -f 1 /proc/uptime) s]"
done < /share/volumes
