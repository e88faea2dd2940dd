#!/bin/sh
# dm-verity: for every line "NAME BLOCKS DATA_BLOCK HASH_BLOCK FIRST TYPE HASH ROOT SALT OPTIONS" of /share/volumes the kernel maps
# /share/NAME.data by the tree in /share/NAME.tree, and parity in /share/NAME.fec if there is any, and reads all of it. What it reads goes to
# /share/NAME.read; where a block fails, it ends there. The last line of each is what the kernel thinks of it: V, or C if it is corrupted.
set -eu
modprobe dm-verity
dmsetup version > /dev/null
while read -r name blocks data_block hash_block first type hash root salt options; do
    for part in data tree fec; do
        [ -e "/share/$name.$part" ] || continue
        cp "/share/$name.$part" "/tmp/$part"
        eval "$part=\$(losetup --find --show --read-only /tmp/$part)"
    done
    options=$(echo "$options" | sed "s|FEC|${fec:-}|")
    sectors=$((blocks * data_block / 512))
    dmsetup create --readonly verity --table \
        "0 $sectors verity $type $data $tree $data_block $hash_block $blocks $first $hash $root $salt $options"
    dd if=/dev/mapper/verity of="/share/$name.read" bs="$data_block" 2> /dev/null || true
    echo "$name: $(dmsetup status verity | cut -d' ' -f4)"
    dmsetup remove verity
    for loop in $data $tree ${fec:-}; do losetup -d "$loop"; done
    unset data tree fec
done < /share/volumes
