#!/bin/sh
# Opens /dev/vda as dm-integrity with the arguments' options, and writes through it until it is killed: for every line of /share/places
# three blocks of 4096 bytes of /share/random, which begin at the block with the line's number. /share/acked has the numbers of the lines
# whose write has been flushed.
set -eu
integritysetup open /dev/vda volume "$@"
number=0
while read -r place; do
    dd if=/share/random of=/dev/mapper/volume bs=4096 skip="$number" seek="$place" count=3 oflag=direct conv=notrunc,fsync 2> /dev/null
    echo "$number" >> /share/acked
    number=$((number + 1))
done < /share/places
