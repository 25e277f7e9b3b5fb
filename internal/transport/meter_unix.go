//go:build unix

package transport

import (
	"errors"
	"syscall"
)

// writeAtOnce writes the bytes that a socket takes without waiting.
func writeAtOnce(raw syscall.RawConn, b []byte) (n int, err error) {
	failed := raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), b)
		return true
	})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return max(n, 0), errors.Join(failed, err)
}
