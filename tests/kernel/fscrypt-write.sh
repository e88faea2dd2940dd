#!/bin/sh
# An ext4 on /dev/vda with a directory for each line of /share/cases (name, version, modes of contents and names, flags, `fold` or
# `-`; version `-` for one in the clear), filled and then told of. For each STATE, locked and unlocked: /share/STATE.stat has a line for
# each entry, STATE.links each link and then its target, unlocked.sums the contents of files. /share/refused has the cases that
# this kernel does not take. /share/large is copied into the directory $1,
# beside names of each length.
set -u
descriptor=0011223344556677
fail() { echo "$*"; exit 1; }
add_keys() {
    identifier=$(xfs_io -c add_enckey /mnt < /share/master.key | awk '{print $NF}')
    xfs_io -c "add_enckey -d $descriptor" /mnt < /share/master.key > /dev/null || fail "no key"
}
# Few programs, many of the shell's own commands: an emulated processor takes its time.
fill() {
    cd "$1" || return 1
    : > empty && printf x > 'one byte' || return 1
    head -c 4096 /share/plain > 'one block' && head -c 4097 /share/plain > 'one block and a byte' || return 1
    cp /share/plain 'many blocks' || return 1
    truncate -s 200000 sparse && dd if=/share/plain of=sparse bs=4096 count=2 seek=9 conv=notrunc 2> /dev/null || return 1
    for len in 1 15 16 17 31 32 33 64 143 200 255; do
        printf "%0${len}d" 7 > "$(printf "%0${len}d" 7)" || return 1
    done
    printf wide > "$(printf '\303\251\342\202\254 \360\237\224\221 name')" || return 1
    printf wider > "$(printf '\303\204\303\226 Stra\303\237e')" || return 1
    # More than a block of a directory has room for.
    i=0
    while [ $i -lt 48 ]; do
        printf '%d' $i > "$(printf 'Entry %0102d' $i)" || return 1
        i=$((i + 1))
    done
    mkdir Sub Sub/deeper && printf nested > 'Sub/deeper/nested file' && chmod 4751 Sub/deeper || return 1
    ln -s t short && ln -s ../a/target/path 'a link' && ln -s "$(printf '%0400d' 3)" 'a long link' || return 1
    ln 'one byte' Sub/again && chown 1000:70000 'one byte' && chmod 640 'one byte' && mkfifo pipe || return 1
    cd /
}
more() {
    cp /share/large "$1/large" && mkdir "$1/lengths" || return 1
    i=1
    while [ $i -le 255 ]; do
        printf '%d' $i > "$1/lengths/$(printf "%0${i}d" 5)" || return 1
        i=$((i + 1))
    done
}
tell() {
    cd /mnt || exit 1
    find . -name lost+found -prune -o -exec stat -c '%f %i %s %u %g %h %Y %n' {} + > "/share/$1.stat" || fail "$1: stat"
    find . -type l | while read -r link; do
        printf '%s\n%s\n' "$link" "$(readlink "$link")"
    done > "/share/$1.links"
    [ "$1" = locked ] || find . -type f -exec sha256sum {} + > "/share/$1.sums" || fail "$1: sums"
    cd /
}
mke2fs -q -t ext4 -b 4096 -O encrypt,stable_inodes,casefold -E encoding=utf8 /dev/vda || fail "mke2fs"
mkdir -p /mnt
: > /share/refused
# A directory becomes a casefolded one while it is empty. Nothing in this guest asks the kernel for it.
mount -t ext4 /dev/vda /mnt || fail "mount"
while read -r name version contents names flags fold; do
    mkdir "/mnt/$name"
done < /share/cases
umount /mnt
while read -r name version contents names flags fold; do
    [ "$fold" = fold ] && echo "set_inode_field /$name flags 0x40080000"
done < /share/cases > /tmp/folds
debugfs -w -f /tmp/folds /dev/vda > /dev/null 2>&1 || fail "debugfs"
mount -t ext4 /dev/vda /mnt || fail "mount"
add_keys
while read -r name version contents names flags fold; do
    [ "$version" = 2 ] && key=$identifier || key=$descriptor
    # The kernel looks for the cipher at the first name.
    if { [ "$version" = - ] || xfs_io -c "set_encpolicy -v $version -c $contents -n $names -f $flags $key" "/mnt/$name" 2> /tmp/why; } \
        && mkdir "/mnt/$name/first" 2> /tmp/why; then
        fill "/mnt/$name" || fail "$name: not filled"
        [ "$name" != "$1" ] || more "/mnt/$name" || fail "$name: no room"
        [ "$fold" = - ] || [ "$(cat "/mnt/$name/ONE byte")" = x ] || fail "$name: is not casefolded"
        echo "$name: filled at $(cut -d' ' -f1 /proc/uptime)"
    else
        echo "$name: $(tail -n1 /tmp/why)"
        rmdir "/mnt/$name"
        echo "$name" >> /share/refused
    fi
done < /share/cases
umount /mnt
mount -t ext4 /dev/vda /mnt || fail "mount"
tell locked
add_keys
tell unlocked
umount /mnt
e2fsck -fn /dev/vda > /tmp/fsck 2>&1 || { cat /tmp/fsck; exit 1; }
echo "told at $(cut -d' ' -f1 /proc/uptime)"
