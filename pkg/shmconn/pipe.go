package shmconn

import "github.com/globalfs/globalfs/pkg/fabric/ring"

// pipeAddr is the address of both ends of a Pipe.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// Pipe returns both ends of a connection within this process, like net.Pipe, for tests: it uses the memory of
// the process and no sockets, so it also works in a bubble of package testing/synctest.
func Pipe() (a, b *Conn) {
	m := ring.Memory(make([]byte, memorySize))
	bytesA, bytesB := localBells()
	roomA, roomB := localBells()
	a, b = newConn(m, 0, bytesA, roomA, func() {}), newConn(m, 1, bytesB, roomB, func() {})
	for _, c := range []*Conn{a, b} {
		c.local, c.remote = pipeAddr{}, pipeAddr{}
	}
	return a, b
}
