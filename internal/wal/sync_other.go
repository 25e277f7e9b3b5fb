//go:build !linux

package wal

import "os"

// osFile is a file of the operating system.
type osFile struct{ *os.File }

// SyncData makes the bytes and the length of the file durable.
func (f osFile) SyncData() error { return f.Sync() }
