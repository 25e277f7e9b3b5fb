#!/usr/bin/env bash
# Compares regions with 1, 2 and 4 partitions: bench/shards/measure.sh GLOBALFS ETCD [FILES]
#
# Eight clients create empty files in a directory each. Three clusters run beside each other, of three servers with
# three replicas of each partition, without certificates, in a network namespace of their own; mounts hold no
# directories, so that each creation is ordered; 'globalfs bench mount'
# lets them take turns. It needs root and /dev/fuse, and an idle machine.
set -euo pipefail
globalfs="$(realpath "$1")" etcd="$(realpath "$2")" files="${3:-4000}"
if [ "${4:-}" != inside ]; then
	exec unshare --net --mount --pid --fork --mount-proc --kill-child bash "$0" "$globalfs" "$etcd" "$files" inside
fi
ip link set lo up
cd "$(mktemp -d)"
trap 'rm -rf "$PWD/data" "$PWD/etcd"' EXIT
"$etcd" --data-dir etcd >etcd.log 2>&1 &
for partitions in 1 2 4; do
	mkdir "mnt$partitions"
	"$globalfs" init --force --name "shards$partitions" --regions region --datacenters 3 --replicas 3 --copies 1 --partitions "$partitions" \
		--loopback "7${partitions}20" --certificates '' --data-dir "$PWD/data/$partitions" "cluster$partitions.yaml" >init.log
	sed -i 's/^durability: .*/durability: os/' "cluster$partitions.yaml"
	grep -q '^durability: os' "cluster$partitions.yaml"
	for letter in a b c; do
		"$globalfs" server "region$letter" --config "cluster$partitions.yaml" >"server-$partitions$letter.log" 2>&1 &
	done
	"$globalfs" status --config "cluster$partitions.yaml" --wait 3m >/dev/null
	"$globalfs" mount --certs none --delegate=none "127.0.0.1:7${partitions}20" "mnt$partitions" >mount.log 2>&1
	mkdir "mnt$partitions/region/bench"
done
echo "partitions 1, 2 and 4; $files files, 8 clients, three servers each, on $(nproc) cores; load before: $(cut -d' ' -f1-3 /proc/loadavg)"
"$globalfs" bench mount --measures create --clients 8 --files "$files" --rounds 5 \
	one=mnt1/region/bench two=mnt2/region/bench four=mnt4/region/bench
for partitions in 1 2 4; do
	echo "commands by partition of the cluster with $partitions:"
	"$globalfs" status --config "cluster$partitions.yaml" | awk '/^PARTITION/ { table = 1 } table { print "  " $1, $2, $5 }'
	"$globalfs" umount "mnt$partitions" >/dev/null
done
