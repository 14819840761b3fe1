#!/bin/sh
# Runs a command (a worker of pytest) as if it had the machine's network, locks and records to itself, so that live tests
# run side by side: namespaces for network and mounts, with nothing in the folders in which live runs meet.
# Fails where namespaces cannot be made.
set -eu
if [ "${APART:-}" != yes ]; then
	APART=yes exec unshare --mount --net -- "$0" "$@"
fi
ip link set lo up
mount --rbind /sys/fs/cgroup /mnt # the new /sys shows this network's interfaces, and has no control groups
mount -t sysfs sysfs /sys
mount --rbind /mnt /sys/fs/cgroup
umount --lazy /mnt
for folder in /run/lock /run/netns /run/ratebed; do
	mkdir -p "$folder"
	mount -t tmpfs -o mode=755 apart "$folder"
done
chmod 700 /run/ratebed
unset APART
exec "$@"
