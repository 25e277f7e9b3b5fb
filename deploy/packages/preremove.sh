#!/bin/sh
# Stops the servers when the package is removed, and not when it is upgraded.
set -e
case "${1:-0}" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl stop 'globalfs@*.service' || true
	fi
	;;
esac
