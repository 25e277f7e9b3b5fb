#!/bin/sh
# Creates the user of the servers. A running server keeps the old program until it is restarted: the operator
# restarts servers one after the other.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers globalfs.conf
elif ! getent passwd globalfs >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/globalfs --no-create-home --shell /usr/sbin/nologin globalfs
fi
chgrp globalfs /etc/globalfs/certs
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
