#!/bin/sh
# dracut: unlocks once, when the devices are there, and the network, if the kernel command line asks for it.
if [ ! -e /run/atrest-unlocked ]; then
    if [ -e /run/atrest-online ] || ! getargbool 0 rd.neednet; then
        modprobe -q dm-crypt || true # built in
        if /usr/sbin/atrest-init unlock; then
            : > /run/atrest-unlocked
        fi
    fi
fi
