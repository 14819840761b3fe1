#!/usr/bin/env bash
# Makes a Vagrant box (libvirt, QEMU) of a Debian with Ratebed set up in it, without any registry of boxes.  Root only.
#
#   testbed/hosts/vm/box.sh FOLDER       leaves FOLDER/ratebed.box; what else it makes there is removed again
#   DEBIAN_MIRROR=http://…         default: the one that this machine's own packages come from
#
# All is done at this machine's speed, in a chroot: in the box, which has no hardware virtualisation, Python takes ten
# times as long.  Mounts are in a namespace of their own, so that none is left, whatever happens.
set -euo pipefail
[ "${IN_NAMESPACE:-}" = yes ] || IN_NAMESPACE=yes exec unshare --mount --pid --fork --kill-child "$0" "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

release=bookworm # that of Vagrant's box in the Vagrantfile
home=/home/vagrant/ratebed
folder=$(mkdir -p "$1" && cd "$1" && pwd)
root=$folder/root
disk_bytes=$((16 << 30)) # sparse

say() { echo "box: $*" >&2; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "${network[@]}" "$@"; }

# --- a Debian -----------------------------------------------------------------------------------------

mirror() {
    apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        sed -n "s/^$release main //p" | head -n 1
}

# How this machine reaches what it installs from: the box must, too, while it is made, and keeps nothing of it.
share_network() {
    local path name
    network=()
    for name in $(compgen -e | grep -E '^(https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|PIP_.*|UV_.*|GOPROXY|GOSUMDB|SSL_CERT_.*)$'); do
        network+=("$name=${!name}")
    done
    cache=${UV_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/uv} && mkdir -p "$cache"
    network+=(UV_CACHE_DIR=/mnt/uv UV_LINK_MODE=copy)
    share "$cache" /mnt/uv
    rm -f "$root/etc/resolv.conf" # a link to what only a running system has; it is made again
    for path in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
        [ ! -e "$path" ] || share "$path" "$path"
    done
    for path in "$HOME/.config/pip" "$HOME/.config/uv" "$HOME/.pip"; do
        [ ! -e "$path" ] || share "$path" "/root/${path#"$HOME"/}"
    done
    for path in ${PIP_FIND_LINKS:-}; do
        [ ! -d "$path" ] || share "$path" "$path"
    done
}

made=() # mount points, to be removed again
share() {
    local at=$root$2
    if [ ! -e "$at" ]; then
        made+=("$at")
        if [ -d "$1" ]; then mkdir -p "$at"; else mkdir -p "${at%/*}" && : >"$at"; fi
    fi
    mount --bind "$1" "$at"
}

make_debian() {
    local from=${DEBIAN_MIRROR:-$(mirror)}
    [ -n "$from" ] || { say "no mirror of Debian $release is known here: name one, as in DEBIAN_MIRROR=http://…"; exit 2; }
    say "Debian $release"
    debootstrap --variant=minbase \
        --include=ca-certificates,e2fsprogs,iproute2,kmod,openssh-server,procps,rsync,sudo,systemd-sysv,systemd-resolved,udev,dbus \
        "$release" "$root" "$from" >"$folder/debootstrap.log" 2>&1 || { tail -n 3 "$folder/debootstrap.log" >&2; exit 1; }
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t sysfs -o ro sys "$root/sys"
    mount -t tmpfs tmpfs "$root/tmp"
    mount -t tmpfs tmpfs "$root/run"
    share_network
}

# --- a machine ----------------------------------------------------------------------------------------

# The kernel, a user that Vagrant knows, keys, a network by DHCP.
make_machine() {
    say "kernel and user"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod +x "$root/usr/sbin/policy-rc.d"
    mkdir -p "$root/etc/initramfs-tools"
    printf '%s\n' virtio_pci virtio_blk virtio_net >"$root/etc/initramfs-tools/virtio"
    inside apt-get -qq -o Dpkg::Use-Pty=0 update >/dev/null
    inside apt-get -qq -o Dpkg::Use-Pty=0 install --yes --no-install-recommends \
        initramfs-tools linux-image-cloud-amd64 >"$folder/kernel.log" 2>&1 || { tail -n 3 "$folder/kernel.log" >&2; exit 1; }
    mv "$root/etc/initramfs-tools/virtio" "$root/etc/initramfs-tools/modules"
    sed -i 's/^MODULES=.*/MODULES=list/' "$root/etc/initramfs-tools/initramfs.conf"
    inside update-initramfs -u >/dev/null
    rm "$root/usr/sbin/policy-rc.d"
    inside useradd --create-home --shell /bin/bash vagrant
    inside passwd --quiet --lock root
    chmod 755 "$root/home/vagrant"
    echo 'vagrant ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/vagrant" && chmod 440 "$root/etc/sudoers.d/vagrant"
    ssh-keygen -q -t ed25519 -N '' -C ratebed-box -f "$folder/key"
    install -d -m 700 "$root/home/vagrant/.ssh"
    install -m 600 "$folder/key.pub" "$root/home/vagrant/.ssh/authorized_keys"
    inside chown -R vagrant: /home/vagrant/.ssh
    echo testbed >"$root/etc/hostname"
    printf '127.0.0.1 localhost testbed\n' >"$folder/hosts"
    printf '[Match]\nName=eth*\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n[DHCPv4]\nClientIdentifier=mac\n' >"$root/etc/systemd/network/eth.network"
    inside systemctl --quiet enable systemd-networkd systemd-resolved ssh
    inside systemctl --quiet disable systemd-networkd-wait-online 2>/dev/null || true
    for unit in apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer e2scrub_reap.service; do
        inside systemctl --quiet mask "$unit"
    done
}

# By the one script that sets everybody up; then compiled, for that takes minutes where Python is slow.
make_ratebed() {
    say "Ratebed"
    mkdir -p "$root$home"
    git ls-files -z --cached --others --exclude-standard | rsync --archive --from0 --files-from=- --ignore-missing-args . "$root$home/"
    rsync --archive .git "$root$home/"
    inside "$home/bootstrap.sh" machine
    inside "$home/.venv/bin/python" -m compileall -q -j 0 "$home/.venv/lib" >/dev/null || true # of some packages' templates
    inside "$home/.venv/bin/python" -m compileall -q -x /[.]venv/ "$home"
    inside chown -R vagrant: "$home"
    inside apt-get -qq clean
    rm -rf "$root"/var/lib/apt/lists/* "$root"/root/{.cache,go}
}

# --- a box --------------------------------------------------------------------------------------------

make_box() {
    say "disk"
    umount --recursive "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/run"
    local mount
    findmnt --noheadings --list --output TARGET | sort -r | while IFS= read -r mount; do
        [ "${mount#"$root/"}" = "$mount" ] || umount "$mount"
    done
    [ ${#made[@]} = 0 ] || rm -rf "${made[@]}"
    ln -sf /run/systemd/resolve/resolv.conf "$root/etc/resolv.conf"
    install -m 644 "$folder/hosts" "$root/etc/hosts"
    : >"$root/etc/machine-id" # each machine makes its own
    rm -f "$root/var/lib/dbus/machine-id"
    cp -L "$root/vmlinuz" "$folder/vmlinuz"
    cp -L "$root/initrd.img" "$folder/initrd.img"
    truncate -s "$disk_bytes" "$folder/disk.raw"
    mke2fs -q -t ext4 -m 0 -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" "$folder/disk.raw"
    rm -rf "$root"
    qemu-img convert -O qcow2 "$folder/disk.raw" "$folder/box.img"
    rm "$folder/disk.raw"
    echo "{\"provider\": \"libvirt\", \"format\": \"qcow2\", \"virtual_size\": $((disk_bytes >> 30))}" >"$folder/metadata.json"
    cp testbed/hosts/vm/box.rb "$folder/Vagrantfile"
    tar -C "$folder" -cf "$folder/ratebed.box.part" --remove-files metadata.json Vagrantfile vmlinuz initrd.img key box.img
    rm -f "$folder"/*.log "$folder"/{hosts,key.pub}
    mv "$folder/ratebed.box.part" "$folder/ratebed.box"
}

rm -rf "$root" "$folder"/{key,key.pub}
make_debian
make_machine
make_ratebed
make_box
