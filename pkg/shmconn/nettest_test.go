package shmconn

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// The conformance suite of connections.
func TestConn(t *testing.T) {
	t.Run("Sockets", func(t *testing.T) {
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
			a, b := shared(t)
			return a, b, func() { _ = errors.Join(a.Close(), b.Close()) }, nil
		})
	})
	t.Run("Pipe", func(t *testing.T) {
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
			a, b := Pipe()
			return a, b, func() { _ = errors.Join(a.Close(), b.Close()) }, nil
		})
	})
}
