#!/usr/bin/env bash
# Measures how much memory, disk and network metadata and blocks take: bench/sizing/measure.sh GLOBALFS ETCD [FILES]
#
# It runs real processes in a network namespace of its own, without certificates and with durability os, in a
# directory of TMPDIR. One server with one replica and one copy gives memory and disk. Three servers with three
# replicas and two copies give the bytes that the loopback interface carries: those of clients, servers and etcd. It
# needs root and /dev/fuse. bench/results/sizing.txt is its output.
set -euo pipefail
globalfs="$(realpath "$1")" etcd="$(realpath "$2")" files="${3:-200000}"
if [ "${4:-}" != inside ]; then
	exec unshare --net --mount --pid --fork --mount-proc --kill-child bash "$0" "$globalfs" "$etcd" "$files" inside
fi
ip link set lo up
cd "$(mktemp -d)"
mkdir mnt
trap 'rm -rf "$PWD/data" "$PWD/etcd"' EXIT

# create makes COUNT files of SIZE bytes in directories of 10,000 with eight processes.
create() {
	python3 - "$1" "$2" "$3" <<'PY'
import os, sys
base, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
children = []
for worker in range(8):
    if pid := os.fork():
        children.append(pid)
        continue
    for i in range(worker, count, 8):
        directory = f"{base}/{worker}-{i // 80000}"
        if i // 80000 != (i - 8) // 80000 or i == worker:
            os.makedirs(directory, exist_ok=True)
        f = os.open(f"{directory}/file-{i:08d}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        if size:
            os.write(f, b"x" * size)
        os.close(f)
    os._exit(0)
if any(os.waitpid(pid, 0)[1] for pid in children):
    sys.exit("a file could not be made")
PY
}

memory() { awk '/^VmRSS/ { printf "%d", $2 / 1024 }' "/proc/$1/status"; }
disk() { du -sm --apparent-size "$@" | awk '{ sum += $1 } END { printf "%d", sum }'; }
carried() { awk '$1 == "lo:" { print $2 }' /proc/net/dev; }

# start runs etcd and the servers of a new cluster, and mounts it.
start() {
	rm -rf data etcd
	"$etcd" --data-dir etcd >etcd.log 2>&1 &
	pids=($!)
	"$globalfs" init --force --name sizing --regions region --datacenters "$1" --replicas "$1" --copies "$2" \
		--loopback 7420 --certificates '' --data-dir "$PWD/data" cluster.yaml >init.log
	sed -i 's/^durability: .*/durability: os/' cluster.yaml
	grep -q '^durability: os' cluster.yaml
	for letter in a b c; do
		[ "$1" -eq 3 ] || [ "$letter" = a ] || continue
		"$globalfs" server "region$letter" --config cluster.yaml >"server-$letter.log" 2>&1 &
		pids+=($!)
	done
	"$globalfs" status --config cluster.yaml --wait 1m >/dev/null
	"$globalfs" mount --foreground --certs none 127.0.0.1:7420 mnt >mount.log 2>&1 &
	mount=$!
	until mountpoint -q mnt; do kill -0 "$mount"; read -rt 0.1 <> <(:) || true; done
	mkdir -p mnt/region/files
}

stop() {
	"$globalfs" umount mnt
	kill -INT "${pids[@]:1}"
	wait "${pids[@]:1}" "$mount"
	kill "${pids[0]}"
	wait "${pids[0]}" || true
}

row() {
	printf '%-34s %10s %12s %12s %12s\n' "$1" "$(memory "${pids[1]}")" "$(memory "$mount")" \
		"$(disk data/*/partition-1/state)" "$(disk data/*/partition-1/log)"
}

printf 'One server, one replica, one copy, durability os. MiB.\n\n%-34s %10s %12s %12s %12s\n' state 'server RSS' 'mount RSS' store log
start 1 1
row 'empty'
create mnt/region/files/empty "$((files / 2))" 0
row "$((files / 2)) empty files"
create mnt/region/files/more "$((files / 2))" 0
row "$files empty files"
create mnt/region/files/small "$((files / 4))" 1024
row "and $((files / 4)) files of 1 KiB"
before="$(disk data/*/blocks)"
dd if=/dev/urandom of=mnt/region/large bs=1M count=512 conv=fsync status=none
row 'and one file of 512 MiB'
printf '\n512 MiB of content take %d MiB of blocks on disk.\n' "$(($(disk data/*/blocks) - before))"
stop

printf '\nThree servers, three replicas, two copies. Bytes on the loopback interface for one operation.\n\n'
start 3 2
between() { printf '%-34s %10d\n' "$1" "$((($(carried) - from) / $2))"; }
from="$(carried)"
create mnt/region/files/empty 8000 0
between 'create' 8000
from="$(carried)"
create mnt/region/files/small 8000 1024
between 'create, write 1 KiB, close' 8000
from="$(carried)"
dd if=/dev/urandom of=mnt/region/large bs=1M count=64 conv=fsync status=none
between 'write 1 MiB' 64
from="$(carried)"
SECONDS=0
until [ "$SECONDS" -ge 20 ]; do read -rt 5 <> <(:) || true; done
between 'idle, each second' "$SECONDS"
stop
