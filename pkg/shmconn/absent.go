//go:build !linux

package shmconn

import (
	"errors"
	"net"
	"time"
)

// errAbsent is the error of all functions on systems other than Linux.
var errAbsent = errors.New("shmconn: connections through shared memory need Linux")

// Offer returns an error.
func Offer(*net.UnixConn, time.Time) (*Conn, error) { return nil, errAbsent }

// Accept returns an error.
func Accept(*net.UnixConn, time.Time) (*Conn, error) { return nil, errAbsent }

// User returns an error.
func User(*net.UnixConn) (uint32, error) { return 0, errAbsent }
