package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/globalfs/globalfs/pkg/shmconn"
)

// sharedProtocol is the ALPN name on the Unix socket of a server: after the handshake the connection goes on
// in shared memory, with messages of the framed protocol.
const sharedProtocol = "globalfs/1-shm"

// sharing makes connections through shared memory.
type sharing interface {
	// listen opens a listener with a name that no other server has.
	listen() (listener net.Listener, name string, err error)
	// dial connects to a name. It fails on another host, or in another network namespace.
	dial(ctx context.Context, name string) (net.Conn, error)
	// user returns the user that runs the process at the other end of a connection.
	user(conn net.Conn) (uint32, error)
	// offer and accept continue an authenticated connection in shared memory. The result owns the connection.
	offer(conn net.Conn, deadline time.Time) (net.Conn, error)
	accept(conn net.Conn, deadline time.Time) (net.Conn, error)
}

// hostSharing is sharing between processes of one host.
type hostSharing struct{}

// sharedPrefix begins the names of listeners. The rest is a random number, which distinguishes a process of a
// server from all other processes, also from an earlier one at the same address.
const (
	sharedPrefix   = "globalfs/"
	sharedNameSize = len(sharedPrefix) + 32
)

// isSharedName reports whether a text of a server can be the name of a listener, and not that of another
// program of this host.
func isSharedName(text string) bool {
	return len(text) == sharedNameSize && strings.HasPrefix(text, sharedPrefix)
}

// listen uses a socket without a file: no directory must be shared with the clients, and no file is left.
func (hostSharing) listen() (net.Listener, string, error) {
	var number [16]byte
	_, _ = rand.Read(number[:]) // never fails
	name := sharedPrefix + hex.EncodeToString(number[:])
	l, err := net.Listen("unix", "@"+name)
	return l, name, err
}

func (hostSharing) dial(ctx context.Context, name string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", "@"+name)
}

// errNoSocket is the error for a connection that sharing has not made.
var errNoSocket = errors.New("not a Unix socket")

func (hostSharing) user(conn net.Conn) (uint32, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errNoSocket
	}
	return shmconn.User(c)
}

func (hostSharing) offer(conn net.Conn, deadline time.Time) (net.Conn, error) {
	return shared(conn, deadline, shmconn.Offer)
}

func (hostSharing) accept(conn net.Conn, deadline time.Time) (net.Conn, error) {
	return shared(conn, deadline, shmconn.Accept)
}

func shared(conn net.Conn, deadline time.Time, make func(*net.UnixConn, time.Time) (*shmconn.Conn, error)) (net.Conn, error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errNoSocket
	}
	c, err := make(u, deadline)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// introduction returns the text of a server inside of TLS before a connection goes on in shared memory: the
// user that runs it, and the name at which it listens. A process between the two ends that relays the
// handshake, and would read the memory afterwards, runs as another user than the server, or listens at
// another name.
func introduction(user uint32, name string) []byte {
	return fmt.Appendf(nil, "%08x%s", user, name)
}

// ownUser returns the user that runs this process.
func ownUser() uint32 { return uint32(os.Geteuid()) }
