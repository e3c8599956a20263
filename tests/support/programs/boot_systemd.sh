#!/bin/bash
# Runs systemd as the first process of a machine of its own: the files of this one, but for /etc,
# /run and /var/lib. Started by `unshare`, in new namespaces; see tests/support/systemd.py.
#
#   boot_systemd.sh FOLDER UNIT
#
# FOLDER/etc is copied over /etc, FOLDER/lib is /var/lib.
set -e
mount --make-rprivate /
mount -t proc proc /proc
mkdir -p "$1/memory" "$1/lib"
mount -t tmpfs tmpfs "$1/memory"
mkdir "$1/memory/etc" "$1/memory/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/memory/etc,workdir=$1/memory/work" /etc
mount -t tmpfs -o mode=755 tmpfs /run
mount --bind "$1/lib" /var/lib
umount --lazy /sys/fs/cgroup || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
rm -rf /etc/systemd/system/* /etc/systemd/user/*
cp -r "$1/etc/." /etc
echo 'sshwarma:x:64990:64990::/var/lib/sshwarma:/usr/sbin/nologin' >> /etc/passwd
echo 'sshwarma:x:64990:' >> /etc/group
: > /etc/machine-id
exec env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin container=lxc /lib/systemd/systemd \
    --system "--unit=$2" --log-target=console --show-status=0
