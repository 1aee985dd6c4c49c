#!/bin/sh
# Runs installed.sh in a layer over the root $1, as a service of a systemd of its own; $2 is a scratch
# directory on a disk, $3 a control group for that systemd, or nothing where there is none: then
# installed.sh runs without. What it prints is in packages/output in the scratch directory.
#
# The caller gave this process mount and process namespaces of its own, with which all of this goes.
set -eu
base=$1 scratch=$2 group=$3 root=$2/root

if [ "${4-}" != inside ] && [ -n "$group" ]; then
    # The control group is the root of the hierarchy for all that runs in the namespace.
    echo 0 > "$group/cgroup.procs"
    exec unshare --cgroup sh "$0" "$base" "$scratch" "$group" inside
fi

mkdir "$root" "$scratch/upper" "$scratch/work" "$scratch/srv"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
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
if [ -n "$group" ]; then
    mount -t sysfs -o ro sysfs "$root/sys"
    case $group in
    /sys/fs/cgroup/systemd/*)
        mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
        mkdir "$root/sys/fs/cgroup/systemd"
        mount -t cgroup -o none,name=systemd,xattr cgroup "$root/sys/fs/cgroup/systemd"
        ;;
    *) mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup" ;;
    esac
    cat > "$root/run/checks.service" <<'EOF'
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
Environment=HOME=/root TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
StandardOutput=append:/packages/output
StandardError=append:/packages/output
ExecStart=/bin/bash -c '/bin/bash /packages/installed.sh; systemctl exit $?'
EOF
    touch "$root/dev/console"
fi

# Not chroot(2) alone: who is in one may make no user namespace, which ordinary users of dio do.
cd "$root"
mkdir before
pivot_root . before
umount -l /before
rmdir /before
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [ -n "$group" ]; then
    mkdir -p /run/systemd/system
    mv /run/checks.service /run/systemd/system/
    exec env -i container=dio PATH=$path chroot . /lib/systemd/systemd --log-target=null \
        --show-status=0 --unit=checks.service
fi
exec env -i PATH=$path HOME=/root TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    chroot . /bin/bash /packages/installed.sh > /packages/output 2>&1
