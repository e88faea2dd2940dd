#!/bin/sh
# Mappings of dm-integrity and dm-verity that we make against those of Debian's integritysetup and veritysetup: for every line
# "KIND|BOTH|FORMAT|OPEN" of /share/mappings, options of format and open, of format alone, and of open alone. Debian's tool lays out, both
# open in turns, and each closes what the other has opened. Table, UUID and what `status` says by either have to be the same. Then ours
# resizes. Fails at the first difference.
set -eu
export LD_LIBRARY_PATH=/share
# In memory: each start of a program from /share would read it anew.
cp /share/atrest /tmp/atrest
mkdir /tmp/names
ln -s /tmp/atrest /tmp/names/integritysetup
ln -s /tmp/atrest /tmp/names/veritysetup
modprobe dm-integrity
modprobe dm-verity
dmsetup version > /dev/null
fail() { echo "$*"; dmesg | tail -n 5; exit 1; }

look() { # FILE: everything that tells the mapping `volume`
    {
        dmsetup table --showkeys volume
        dmsetup info --noheadings -c -o name,uuid,read_only,segments volume
        $kind status volume
    } > "$1" 2>&1 || fail "$line: $(cat "$1")"
    "/tmp/names/$kind" status volume > /tmp/ours 2>&1 || fail "$line: $(cat /tmp/ours)"
    $kind status volume | diff - /tmp/ours || fail "$line: another status"
}

while IFS='|' read -r kind both format open; do
    line="$kind $both, $format, $open"
    dd if=/dev/zero of=/dev/vda bs=4096 count=1 2> /dev/null
    dd if=/dev/zero of=/dev/vdb bs=4096 count=1 2> /dev/null
    case $kind in
    integritysetup)
        integritysetup format -q /dev/vda $both $format > /dev/null || fail "$line: not laid out"
        operands="/dev/vda volume" ;;
    veritysetup)
        veritysetup format /dev/vda /dev/vdb --root-hash-file /tmp/root $both $format > /dev/null || fail "$line: no tree"
        operands="/dev/vda volume /dev/vdb --root-hash-file /tmp/root" ;;
    esac
    $kind open $operands $both $open || fail "$line: $kind does not open"
    look /tmp/theirs
    "/tmp/names/$kind" close volume || fail "$line: we do not close"
    "/tmp/names/$kind" open $operands $both $open || fail "$line: we do not open"
    look /tmp/again
    diff /tmp/theirs /tmp/again || fail "$line: another mapping"
    ! "/tmp/names/$kind" open $operands $both $open 2> /tmp/out || fail "$line: opened twice"
    $kind close volume || fail "$line: $kind does not close"
    echo "$line: same"
done < /share/mappings

# No certificate of this kernel made the signature. It says the same of it to both, so it has found it where the table says.
veritysetup format /dev/vda /dev/vdb --root-hash-file /tmp/root > /dev/null || fail "no tree"
for program in veritysetup /tmp/names/veritysetup; do
    dmesg -c > /dev/null
    ! $program open /dev/vda volume /dev/vdb --root-hash-file /tmp/root --root-hash-signature /share/signature 2> /tmp/out ||
        fail "$program opens with a signature of anybody"
    dmesg | sed -n 's/^\[[^]]*\] *//; s/table: [0-9:]*/table/; /verity/p' > "/tmp/said-$(dirname $program | tr / -)"
done
[ -s /tmp/said-. ] || fail "the kernel says nothing of a signature"
diff /tmp/said-. /tmp/said--tmp-names || fail "the kernel says something else of a signature"
echo "signature: same"

integritysetup format -q /dev/vda > /dev/null
/tmp/names/integritysetup open /dev/vda volume
sectors=$(blockdev --getsz /dev/mapper/volume)
for wipe in "" --wipe; do
    /tmp/names/integritysetup resize volume --size 2048 || fail "not resized"
    [ "$(blockdev --getsz /dev/mapper/volume)" = 2048 ] || fail "not smaller"
    /tmp/names/integritysetup resize -q $wipe volume || fail "not resized again"
    [ "$(blockdev --getsz /dev/mapper/volume)" = "$sectors" ] || fail "not as long as before"
    cat /dev/mapper/volume > /dev/null || fail "tags are wrong after a resize ($wipe)"
done
! /tmp/names/integritysetup resize volume --size $((sectors + 8)) 2> /tmp/out || fail "longer than its device"
! /tmp/names/veritysetup close volume 2> /tmp/out || fail "closed as another kind"
/tmp/names/integritysetup close volume
echo "resized: same"
