# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# Source this after mount.sh: a store and its mount in two network namespaces, over TLS and a
# relay (t/lib/net_relay.c) that delays and loses packets.
[ -z "$MODEL" ] || skip_all "the model is not served"
[ "$(id -u)" = 0 ] && has nsenter && [ -c /dev/net/tun ] || cannot_run "needs root, nsenter and /dev/net/tun"
relay=
machines() { ! runs $relay || read -r near far <"$W/machines"; }
# network DELAY_MS LOSS SEED: starts the relay.  $near and $far are processes in the two namespaces.
network() {
	"$BUILD/t/lib/net_relay" "$@" >"$W/machines" 2>"$W/relay.err" &
	relay=$!
	wait_for "the network" machines
	runs $relay || cannot_run "$(cat "$W/relay.err")"
}
# mount_over_network [OPTIONS]: serves $D at the far side, and mounts it at the near side.
mount_over_network() {
	"$TABLETCTL" keys add "$W/keys" host mount >"$W/key"
	chmod 600 "$W/key"
	printf 'listen = "10.99.0.2:7000";\nkeys = "%s";\n' "$W/keys" >"$W/conf"
	nsenter -t "$far" -n -- "$SERVER" -f -o config="$W/conf" "$D" >"$W/server.out" 2>"$W/server.err" </dev/null &
	server=$!
	wait_for "the server" test -S "$D/socket"
	nsenter -t "$near" -n -- "$TABLETFS" -f tls://10.99.0.2:7000 "$M" -o keys="$W/key${1:+,$1}" >"$W/daemon.out" 2>"$W/daemon.err" </dev/null &
	daemon=$!
	wait_for "the mount" mount_answers
}
# network_end: all of it must end well.
network_end() {
	t fusermount3 -u "$M"
	wait_daemon
	is "$daemon_status" 0 "the mount ends well"
	end_server -TERM
	kill $relay
	check_store
}
