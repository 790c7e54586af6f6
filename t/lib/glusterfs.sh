# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# A GlusterFS volume of three bricks for tests of shared storage, in namespaces of its own, because glusterd has fixed ports and
# paths.  A test sources this file first:
#
#	. "${SRC:-.}/t/lib/glusterfs.sh" || exit 1     runs the test again in the namespaces
#	. "${SRC:-.}/t/lib/cluster.sh" || exit 1
#	begin_volume SIZE              SIZE: of each brick, as of tmpfs; the options of volumes are the safe ones
#	mount_volume DIR [OPTION...]   a further client
#	safe_mount                     (array) its safe options
#	brick N                        prints the number of the process of a brick
if [ -z "${IN_NAMESPACES-}" ] && [ "$(id -u)" = 0 ] && unshare -mnpf true 2>/dev/null; then
	IN_NAMESPACES=1 exec unshare -mnpf --kill-child --mount-proc --propagation private "${SRC:-.}/t/lib/own_mounts" bash "$0"
fi
safe_mount=(--attribute-timeout=0 --entry-timeout=0 --negative-timeout=0 --auto-invalidation=on)

gluster_answers() { t gluster --mode=script volume list; }
begin_volume() {
	local option n
	[ -n "${IN_NAMESPACES-}" ] && [ -c /dev/fuse ] || cannot_run "needs root, namespaces and FUSE"
	has glusterd && has glusterfs && has gluster || cannot_run "needs the packages glusterfs-server and glusterfs-client"
	has ip || cannot_run "needs ip"
	ip link set lo up
	mkdir "$W/gluster" "$W/bricks"
	cp -r /var/lib/glusterd/. "$W/gluster/"
	mkdir -p /var/log/glusterfs
	for n in /run /var/log/glusterfs; do mount -t tmpfs tmpfs $n || cannot_run "a tmpfs cannot be mounted"; done
	mount --bind "$W/gluster" /var/lib/glusterd
	mount -t tmpfs -o "size=$(( ${1%m} * 3 ))m" tmpfs "$W/bricks"
	mkdir -p /run/gluster
	cat >"$W/glusterd.vol" <<-V
		volume management
		    type mgmt/glusterd
		    option working-directory /var/lib/glusterd
		    option run-directory /run/gluster
		    option transport-type socket
		    option transport.socket.bind-address 127.0.0.2
		    option transport.socket.listen-port 24007
		    option ping-timeout 0
		    option event-threads 1
		end-volume
	V
	glusterd -f "$W/glusterd.vol" -l "$W/glusterd.log" -p "$W/glusterd.pid" || cannot_run "glusterd does not start: $(tail -n 1 "$W/glusterd.log")"
	ok "glusterd answers" wait_for "glusterd" gluster_answers
	mkdir "$W/bricks/1" "$W/bricks/2" "$W/bricks/3"
	ok "a volume" t gluster --mode=script volume create V replica 3 "127.0.0.2:$W/bricks/1" "127.0.0.2:$W/bricks/2" "127.0.0.2:$W/bricks/3" force
	for option in "group db-workload" "performance.open-behind off" "cluster.quorum-reads on" "network.ping-timeout 5"; do
		# shellcheck disable=SC2086
		ok "  $option" t gluster --mode=script volume set V $option
	done
	ok "  it is started" t gluster --mode=script volume start V
}
mount_volume() {
	mkdir -p "$1"
	glusterfs -s 127.0.0.2 --volfile-id V "${@:2}" -l "$W/client.log" "$1" && wait_for "the volume at $1" mountpoint -q "$1"
}
brick() { pgrep -f -- "--brick-name $W/bricks/$1 "; }
