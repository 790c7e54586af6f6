#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NFS 4.2 as the storage of a cluster, in a virtual machine, because this machine's kernel may have no NFS.  Hosts a and b have a mount
# with the options of tabletfs-cluster(7), probe each other and serve; c, with the default options, is refused.  A server that is
# stopped past its session writes nothing any more.  Debian's kernel and NFS server are unpacked, not installed.
# (t/lib/nfs_guest is what runs there.)
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
# shellcheck source=t/lib/zookeeper.sh
. "$SRC/t/lib/zookeeper.sh"
[ -z "$MODEL$OVER" ] || skip_all "needs a cluster"
missing=$(zookeeper_missing) && cannot_run "there is no $missing"
for program in qemu-system-x86_64 busybox dpkg mount.nfs ip nsenter unshare; do
	has $program || cannot_run "there is no $program (qemu-system-x86, busybox-static, nfs-common)"
done

# ---- the packages ----
packages=$BUILD/t/nfs
if [ ! -e "$packages/done" ]; then
	kernel=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }')
	[ -n "$kernel" ] || cannot_run "apt-cache names no kernel for linux-image-cloud-amd64"
	rm -rf "$packages"
	mkdir -p "$packages"
	(cd "$packages" && t apt-get download -q "$kernel" nfs-kernel-server) >"$W/apt.log" 2>&1 || cannot_run "apt-get download: $(tail -n 1 "$W/apt.log")"
	for deb in "$packages"/*.deb; do dpkg -x "$deb" "$packages" || cannot_run "$deb cannot be unpacked"; done
	: >"$packages/done"
fi

# ---- the machine ----
root=$W/root
mkdir -p "$root"/{bin,etc,usr/lib64,lib}
ln -s usr/lib64 "$root/lib64"
# put FILE PATH: with its libraries
put() {
	install -D "$1" "$root$2"
	ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
		[ -e "$root$library" ] || install -D "$library" "$root$library"
	done
}
put "$(command -v busybox)" /bin/busybox
for program in ip mount.nfs nsenter unshare; do put "$(command -v $program)" "/usr/bin/$program"; done
for program in rpc.nfsd rpc.mountd exportfs; do put "$packages/usr/sbin/$program" "/usr/sbin/$program"; done
for program in tabletfs tabletctl tabletfs-master; do put "$BUILD/$program" "/usr/bin/$program"; done
ln -s tabletfs "$root/usr/bin/tabletfs-server"
modules=(fs/nfs fs/nfsd fs/nfs_common fs/lockd fs/fuse fs/fscache fs/netfs net/sunrpc net/bridge net/802 net/llc net/dns_resolver net/core
	drivers/virtio drivers/net/veth.ko drivers/net/virtio_net.ko drivers/net/net_failover.ko crypto lib)
version=$(basename "$packages"/lib/modules/*)
from=lib/modules/$version
(cd "$packages" && for m in modules.builtin modules.order "${modules[@]/#/kernel/}"; do [ ! -e "$from/$m" ] || echo "$from/$m"; done) >"$W/modules"
tar -C "$packages" -cf - -T "$W/modules" | tar -C "$root" -xf -
busybox depmod -b "$root" "$version"
cp /etc/netconfig /etc/protocols /etc/services "$root/etc/" 2>/dev/null
printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
echo 10.0.2.100:2181 >"$root/etc/zookeeper"
install -m 755 "$SRC/t/lib/nfs_guest" "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$W/initrd"

# ---- it runs ----
trap 'zookeeper_stop "$W/zookeeper"; clean_up' EXIT
zookeeper_start "$W/zookeeper" 1 || cannot_run "ZooKeeper does not start"
address=$(cat "$W/zookeeper/1/address")
T=1500 t qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -nographic -no-reboot -kernel "$packages/boot/vmlinuz-$version" \
	-initrd "$W/initrd" -append "console=ttyS0 quiet panic=-1 rdinit=/init" -device virtio-net-pci,netdev=n \
	-netdev "user,id=n,restrict=on,guestfwd=tcp:10.0.2.100:2181-cmd:busybox nc $address 2181" </dev/null >"$W/console" 2>&1
while read -r line; do
	case $line in
	"ok - "*) pass "${line#ok - }" ;;
	"not ok - "*) fail "${line#not ok - }" ;;
	*) echo "$line" ;;
	esac
done < <(tr -d '\r' <"$W/console" | sed -n 's/^.*TAP: //p')
if grep -q "TAP: done" "$W/console"; then pass "all was tried"; else
	fail "all was tried"
	tail -n 30 "$W/console" | diag
fi
done_testing
