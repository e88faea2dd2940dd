#!/bin/bash
# dracut: puts atrest-init, the crypttab and what opening a volume needs into the initramfs.

check() {
    require_binaries atrest-init || return 1
    return 255 # only where it is asked for: --add atrest
}

depends() {
    echo base dm # which has the rules by which udev answers
}

installkernel() {
    hostonly='' instmods dm-crypt =crypto
}

install() {
    inst_binary atrest-init /usr/sbin/atrest-init
    [ ! -e /etc/crypttab ] || inst_simple /etc/crypttab
    # dracut sets moddir for its modules.
    # shellcheck disable=SC2154
    inst_hook initqueue/settled 20 "$moddir/atrest-unlock.sh"
    inst_hook initqueue/online 20 "$moddir/atrest-online.sh"
    inst_hook initqueue/timeout 20 "$moddir/atrest-online.sh"
}
