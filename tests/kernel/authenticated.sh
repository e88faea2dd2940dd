#!/bin/sh
# For every line "NAME HOW OPTIONS" of /share/volumes there are two disks. On the first one we made a volume and wrote
# /share/NAME.plain: the kernel has to read all of it, whose tags it checks, and writes /share/NAME.new over it. On the second one
# cryptsetup makes a volume with the OPTIONS and fills it with /share/NAME.new. HOW is what `cryptsetup open` is told besides.
# Fails at the first difference.
set -eu
fail() { echo "$*"; dmesg | tail -n 5; exit 1; }
letters=abcdefghijklmnopqrstuvwxyz
disk() { # the next one
    device=/dev/vd$(echo "$letters" | cut -c 1)
    letters=$(echo "$letters" | cut -c 2-)
}
opened() {
    [ "$how" = - ] && how=
    cryptsetup open --key-file /share/key $how "$device" volume || fail "$name: not opened: $(dmesg | tail -n 5)"
}
fill() {
    # cryptsetup's own may be some sectors shorter than ours.
    size=$(blockdev --getsize64 /dev/mapper/volume)
    head -c "$size" "/share/$name.new" | dd of=/dev/mapper/volume bs=64k iflag=fullblock conv=fsync 2> /tmp/messages ||
        fail "$name: not written: $(cat /tmp/messages)"
}
cost="--pbkdf pbkdf2 --pbkdf-force-iterations 1000 --luks2-metadata-size 16k --luks2-keyslots-size 1m"
while read -r name how options; do
    disk
    opened
    cmp "/share/$name.plain" /dev/mapper/volume || fail "$name: the kernel reads something else"
    fill
    cryptsetup close volume
    disk
    cryptsetup luksFormat -q --type luks2 $cost $options "$device" /share/key > /tmp/messages 2>&1 || fail "$name: $(cat /tmp/messages)"
    opened
    fill
    cryptsetup close volume
    echo "$name: same"
done < /share/volumes
