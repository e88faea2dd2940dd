#!/bin/sh
# The image of a tree on /dev/vda, read and written by this kernel: /share has master.key, the descriptors and what must be found.
set -u
mkdir -p /mnt
mount -t ext4 /dev/vda /mnt || exit 1
add_keys() {
    xfs_io -c add_enckey /mnt < /share/master.key > /dev/null || exit 1
    while read -r descriptor; do
        xfs_io -c "add_enckey -d $descriptor" /mnt < /share/master.key > /dev/null || exit 1
    done < /share/descriptors
}
add_keys
sh /share/tree-manifest.sh /mnt | grep -v ' \./lost+found' > /tmp/found
diff /share/expected /tmp/found > /tmp/differences || { head -n 40 /tmp/differences; echo "the trees differ"; exit 1; }
echo "$(grep -c '^[df] ' /tmp/found) entries read"
for directory in /mnt/*/; do
    [ "$directory" = /mnt/lost+found/ ] && continue
    mkdir "$directory/new" || exit 1
    for i in $(seq 40); do echo "$i" > "$directory/new/file $i" || exit 1; done
    mv "$directory/new/file 7" "$directory/renamed" || exit 1
    find "$directory" -maxdepth 1 -type f -name '[0-9]*' -delete
done
sh /share/tree-manifest.sh /mnt > /tmp/changed
umount /mnt
mount -t ext4 /dev/vda /mnt || exit 1
add_keys
sh /share/tree-manifest.sh /mnt > /tmp/again
cmp /tmp/changed /tmp/again || { echo "the changes are not there"; exit 1; }
umount /mnt
e2fsck -fn /dev/vda > /tmp/fsck 2>&1 || { cat /tmp/fsck; exit 1; }
echo "written, and clean"
