#!/bin/bash
# boot.sh ROOT WORK: becomes the init of a machine whose files are those of ROOT, with every change
# in memory. Runs in namespaces of its own (see machine.rs).
set -eu
root=$1 work=$2

mount --make-rprivate /
mount -t tmpfs -o mode=755 machine "$work"
mkdir "$work"/{upper,scratch,root}
mount -t overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/scratch" machine "$work/root"
cd "$work/root"

mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 dev dev
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t tmpfs -o mode=755 run run
mount -t tmpfs -o mode=1777 tmp tmp

hostname machine
ip link set lo up
mkdir -p mnt
pivot_root . mnt
cd /
umount -l mnt
# As on a machine that the kernel boots: what systemd mounts for a service, the service sees.
mount --make-rshared /
exec env -i container=machine PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init --show-status=0
