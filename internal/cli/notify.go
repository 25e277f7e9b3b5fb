package cli

import "github.com/coreos/go-systemd/v22/daemon"

// notifyReady reports to systemd that this process is ready, if systemd has started it with Type=notify. If
// the report fails, systemd reports it when the start times out.
func notifyReady() { _, _ = daemon.SdNotify(false, daemon.SdNotifyReady) }
