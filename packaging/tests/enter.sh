#!/bin/sh
# Runs installed.sh in a layer over the root $1; $2 is a scratch directory on a disk. The caller
# gave it mount and process namespaces of its own, with which all of this goes.
set -eu
base=$1 scratch=$2 root=$2/root

mkdir "$root" "$scratch/upper" "$scratch/work" "$scratch/srv"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
# Devices of its own: those of this machine may be closed to ordinary users.
device() { mknod -m "$2" "$root/dev/$1" c "$3" "$4"; }
device null 666 1 3
device zero 666 1 5
device random 666 1 8
device urandom 666 1 9
device tty 666 5 0
device fuse 666 10 229
mkdir "$root/dev/shm" "$root/packages"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
# Files on a disk, and not on the overlay.
mount --bind "$scratch/srv" "$root/srv"
mount --bind "$scratch/packages" "$root/packages"
# Not chroot(2) alone: who is in one may make no user namespace, which ordinary users of dio do.
cd "$root"
mkdir before
pivot_root . before
umount -l /before
rmdir /before
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
    LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot . /bin/bash /packages/installed.sh
