#!/usr/bin/env bash
# Measures rename and link over two partitions of a region: bench/shards/rename.sh GLOBALFS ETCD ORDER [COUNT]
#
# ORDER is the order of each partition, primcast or tram ('globalfs init --local-order'). One process renames a file
# between two directories in different partitions, and links it into the other directory; renames in one directory and
# creations stand beside them. Three servers with certificates, durability os, and a mount that holds no directories run
# in a network namespace of their own. Medians of the mount, and the CPU time of all servers for an operation. It needs
# root and /dev/fuse, and an idle machine.
set -euo pipefail
globalfs="$(realpath "$1")" etcd="$(realpath "$2")" order="$3" count="${4:-300}"
if [ "${5:-}" != inside ]; then
	exec unshare --net --mount --pid --fork --mount-proc --kill-child bash "$0" "$globalfs" "$etcd" "$order" "$count" inside
fi
ip link set lo up
dir="$(mktemp -d)"
cd "$dir"
trap 'rm -rf "$dir"' EXIT
"$etcd" --data-dir etcd >etcd.log 2>&1 &
mkdir mnt
"$globalfs" init --force --name shards --regions region --datacenters 3 --replicas 3 --copies 1 --partitions 2 \
	--local-order "$order" --loopback 7620 --data-dir "$PWD/data" cluster.yaml >init.log
sed -i 's/^durability: .*/durability: os/' cluster.yaml
grep -q '^durability: os' cluster.yaml
"$globalfs" certs servers >certs.log
"$globalfs" certs admin admin >>certs.log
"$globalfs" certs client client1 --root >>certs.log
servers=()
for letter in a b c; do
	"$globalfs" server "region$letter" --config cluster.yaml >"server-$letter.log" 2>&1 &
	servers+=("$!")
done
"$globalfs" status --config cluster.yaml --wait 3m >/dev/null
"$globalfs" mount --delegate=none 127.0.0.1:7620 mnt >mount.log 2>&1
python3 - "$order" "$count" "${servers[@]}" <<'PY'
import os, sys, time

order, count, servers = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
base = "mnt/region"
directories, made = {}, 0  # by partition
while len(directories) < 2:
    path = f"{base}/d{made}"
    os.mkdir(path)
    directories.setdefault(os.stat(path).st_ino >> 48, path)
    made += 1
near, far = directories.values()
open(near + "/file", "w").close()


def spent():
    ticks = 0
    for pid in servers:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return 1e6 * ticks / os.sysconf("SC_CLK_TCK")


def measure(name, step):
    before, took = spent(), []
    for i in range(count):
        begin = time.perf_counter()
        step(i)
        took.append(1e6 * (time.perf_counter() - begin))
    took.sort()
    print(f"{order:9} {name:14} {count} operations: p50 {took[count // 2]:7.0f} us, p90 {took[count * 9 // 10]:7.0f} us, "
          f"CPU of the servers {(spent() - before) / count:6.0f} us, load {os.getloadavg()[0]:.1f}", flush=True)


def swap(i, a, b):
    os.rename(*((a, b) if i % 2 == 0 else (b, a)))


measure("idle, 10 ms", lambda i: time.sleep(0.01))
for r in range(3):
    measure("rename, two", lambda i: swap(i, near + "/file", far + "/file"))
    measure("rename, one", lambda i: swap(i, near + "/file", near + "/other"))
    measure("link, two", lambda i: os.link(near + "/file", f"{far}/link{r}-{i}"))
    measure("create", lambda i: os.close(os.open(f"{near}/new{r}-{i}", os.O_CREAT | os.O_EXCL)))
PY
"$globalfs" umount mnt >/dev/null
