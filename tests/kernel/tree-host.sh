#!/bin/bash
# tree-host.sh IMAGE SOURCE KEY DESCRIPTOR...: the running kernel reads an image that was built from SOURCE, finds everything in
# it, and writes to it; e2fsck finds it clean before and after. Needs root.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
image=$1 source=$2 key=$3
shift 3
mount=$(mktemp -d)
trap 'umount "$mount" 2> /dev/null || true; rmdir "$mount"' EXIT
add_keys() {
    "$here/fscrypt-ctl" add-key "$mount" < "$key"
    for descriptor; do "$here/fscrypt-ctl" add-key "$mount" --descriptor "$descriptor" < "$key"; done
}
e2fsck -fn "$image" 2>&1
mount -o loop "$image" "$mount"
locked=$(find "$mount" | wc -l)
add_keys "$@" > /dev/null
unlocked=$(find "$mount" | wc -l)
[ "$locked" = "$unlocked" ] || { echo "$locked names without the key, $unlocked with it"; exit 1; }
diff <("$here/tree-manifest.sh" "$source" %.9Y) <("$here/tree-manifest.sh" "$mount" %.9Y | grep -v ' \./lost+found') || { echo "the trees differ"; exit 1; }
for directory in "$mount"/*/; do
    [ "$directory" = "$mount/lost+found/" ] && continue
    "$here/fscrypt-ctl" get-policy "$directory" || echo "in the clear"
    mkdir "$directory/new"
    for i in $(seq 40); do echo "$i" > "$directory/new/file $i"; done
    mv "$directory/new/file 7" "$directory/renamed"
    ln "$directory/renamed" "$directory/linked"
    ln -s "a target" "$directory/new/link"
    find "$directory" -maxdepth 1 -type f -name '[0-9]*' -delete
done
"$here/tree-manifest.sh" "$mount" > "$image.changed"
umount "$mount"
e2fsck -fn "$image" 2>&1
mount -o loop "$image" "$mount"
add_keys "$@" > /dev/null
diff "$image.changed" <("$here/tree-manifest.sh" "$mount") || { echo "the changes are not there"; exit 1; }
umount "$mount"
echo "$unlocked names read and written by the kernel"
