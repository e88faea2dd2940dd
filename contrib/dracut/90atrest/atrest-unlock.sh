#!/bin/sh
# dracut: unlocks once, when the devices are there.
if [ ! -e /run/atrest-unlocked ]; then
    modprobe -q dm-crypt || true # built in
    if /usr/sbin/atrest-init unlock; then
        : > /run/atrest-unlocked
    fi
fi
