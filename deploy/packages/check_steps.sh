#!/usr/bin/env bash
# The steps of check.sh, in the copy.
set -euxo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd /
gone() { if [ -e "$1" ]; then exit 1; fi; } # set -e does not heed "!"
dpkg -i /tmp/package/0.0.1.deb
globalfs version | grep -x 'globalfs 0.0.1'
for type in globalfs fuse.globalfs; do [ "$(readlink -f /sbin/mount.$type)" = /usr/bin/globalfs ]; done
getent passwd globalfs
[ "$(stat -c '%a %G' /etc/globalfs/certs)" = '750 globalfs' ]
# The images of containers leave man pages out (path-exclude): what the package has counts.
dpkg-deb --contents /tmp/package/0.0.1.deb | grep ' ./usr/share/man/man1/globalfs-mount.1.gz$' >/dev/null
test -s /usr/share/bash-completion/completions/globalfs
grep -q '^ExecStart=/usr/bin/globalfs server' /usr/lib/systemd/system/globalfs@.service
grep -q '^User=globalfs' /usr/lib/systemd/system/globalfs@.service
globalfs init --check /etc/globalfs/cluster.yaml.example
echo '# mine' >/etc/globalfs/cluster.yaml
echo '# changed' >>/etc/globalfs/cluster.yaml.example
mkdir -p /var/lib/globalfs/n1

dpkg --force-confold -i /tmp/package/0.0.2.deb
[ "$(dpkg-query -W -f '${Version}' globalfs)" = 0.0.2 ]
globalfs version | grep -x 'globalfs 0.0.2'
grep -q '^# changed' /etc/globalfs/cluster.yaml.example

dpkg -r globalfs
gone /usr/bin/globalfs
gone /usr/sbin/mount.globalfs
gone /usr/sbin/mount.fuse.globalfs
gone /usr/lib/systemd/system/globalfs@.service
test -s /etc/globalfs/cluster.yaml
test -d /var/lib/globalfs/n1

dpkg -P globalfs
gone /etc/globalfs/cluster.yaml.example
test -s /etc/globalfs/cluster.yaml
test -d /var/lib/globalfs/n1
