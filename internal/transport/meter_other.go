//go:build !unix

package transport

import "syscall"

// writeAtOnce writes nothing: a goroutine writes all bytes.
func writeAtOnce(syscall.RawConn, []byte) (int, error) { return 0, nil }
