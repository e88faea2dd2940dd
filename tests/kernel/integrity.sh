#!/bin/sh
# dm-integrity in the kernel, for every line "NAME DEVICE ACTION FORMAT | OPEN" of /share/lines: the options of `integritysetup format` and `open`.
#   read    the device was written by others: prints the sum of all its data, for which every tag has to be right.
#   write   lays the device out, writes, and leaves in /share the device as a crash would (NAME.live), as closing it does
#           (NAME.closed), and its data (NAME.plain).
set -eu
fail() { echo "$*"; dmesg | tail -n 5; exit 1; }

while read -r name device action words; do
    format=${words%|*}
    open=${words#*|}
    if [ "$action" = write ]; then
        integritysetup format --batch-mode "$device" $format || fail "$name: not laid out"
        integritysetup dump "$device" > "/share/$name.dump"
    fi
    integritysetup open "$device" volume $open || fail "$name: not opened"
    if [ "$action" = write ]; then
        while read -r seek count; do
            dd if=/share/random of=/dev/mapper/volume bs=4096 seek="$seek" count="$count" oflag=direct conv=notrunc,fsync 2> /dev/null
        done < /share/writes
        cat "$device" > "/share/$name.live"
        cat /dev/mapper/volume > "/share/$name.plain"
    fi
    sha256sum < /dev/mapper/volume > /tmp/sum || fail "$name: not read"
    integritysetup close volume
    [ "$action" = read ] || cat "$device" > "/share/$name.closed"
    echo "$name: $(cut -d ' ' -f 1 /tmp/sum)"
done < /share/lines
