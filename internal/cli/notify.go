package cli

import (
	"net"
	"os"
)

// notifyReady reports to systemd that this process is ready (sd_notify(3)), if systemd has started it with
// Type=notify.
func notifyReady() {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return // systemd reports it when the start times out
	}
	_, _ = conn.Write([]byte("READY=1"))
	_ = conn.Close()
}
