package verbs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// Config of an endpoint.
type Config struct {
	Self fabric.NodeID
	// Dial opens a connection to a peer; the peer passes its end to Serve. Both sides have authenticated each
	// other. The connection carries the set-up of queue pairs, and its end means that the peer has died. Dial
	// is not called for the node itself.
	Dial func(ctx context.Context, peer fabric.NodeID) (net.Conn, error)
	// Report is called after each attempt to set up a queue pair to a peer, with the reason of a failure, or
	// nil. It must not close the endpoint. nil: nothing is reported.
	Report func(peer fabric.NodeID, err error)
	// Device is the name of the RDMA device, such as mlx5_0. Empty: the first one.
	Device string
	// GIDIndex selects an address of the device's first port by its index. 0: the IPv4 address of RoCE v2, or
	// the first address if there is none.
	GIDIndex int
	// Timeout is the longest time that a peer may take to acknowledge operations. 0: two seconds.
	Timeout time.Duration
	// Spin is the longest time for which Wait polls before it sleeps. 0: Wait sleeps at once.
	Spin time.Duration
	// Look is the longest time for which Wait sleeps. Memory may have changed after it, because a network
	// interface writes memory without an event for the program. A write with Notify ends Wait at once. 0: a
	// millisecond.
	Look time.Duration
}

const (
	defaultTimeout = 2 * time.Second
	defaultLook    = time.Millisecond
)

// Endpoint is a node of the fabric. Serve accepts the connections of its peers.
type Endpoint interface {
	fabric.Endpoint
	// Serve sets up queue pairs for a peer until its connection ends, and closes the connection. The caller
	// has authenticated the peer. Serve first closes an earlier connection of the same peer, and resets the
	// queue pairs of that connection.
	Serve(peer fabric.NodeID, conn net.Conn) error
}

// complete validates c, and replaces zero fields by their defaults.
func (c Config) complete() (Config, error) {
	switch {
	case c.Self == 0:
		return c, errors.New("verbs: Config.Self is 0: give the node a number")
	case c.Dial == nil:
		return c, errors.New("verbs: Config.Dial is missing: give a function that connects to a peer")
	case c.Timeout < 0 || c.Spin < 0 || c.Look < 0:
		return c, fmt.Errorf("verbs: Config.Timeout %v, Spin %v, Look %v: give positive durations, or 0", c.Timeout, c.Spin, c.Look)
	case c.GIDIndex < 0:
		return c, fmt.Errorf("verbs: Config.GIDIndex is %d: give an index, or 0", c.GIDIndex)
	}
	if c.Report == nil {
		c.Report = func(fabric.NodeID, error) {}
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Look == 0 {
		c.Look = defaultLook
	}
	return c, nil
}
