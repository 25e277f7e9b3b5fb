//go:build !linux

package durable

import "os"

// SyncData makes the bytes and the length of a file durable.
func SyncData(file *os.File) error { return file.Sync() }
