package cli

import (
	"net"
	"os"
)

// notifyReady tells systemd, if that has started this process with Type=notify, that it serves
// (sd_notify(3)).
func notifyReady() {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return // systemd says so when the start times out
	}
	_, _ = conn.Write([]byte("READY=1"))
	_ = conn.Close()
}
