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
	// Dial makes a connection to a peer, which passes it to Serve. Both have authenticated each other. The
	// connection carries the set-up of queue pairs, and its end is the death of the peer. Dial is not called
	// for the node itself.
	Dial func(ctx context.Context, peer fabric.NodeID) (net.Conn, error)
	// Report is called after each attempt to set up a queue pair to a peer, with the reason of a failure, or
	// nil. It must not close the endpoint. nil: nothing is reported.
	Report func(peer fabric.NodeID, err error)
	// Device is the name of the RDMA device, such as mlx5_0. Empty: the first one.
	Device string
	// GIDIndex is the index of the address of the device's first port. 0: the IPv4 address of RoCE v2, or
	// else the first address.
	GIDIndex int
	// Timeout is how long a peer may leave operations without acknowledgement. 0: two seconds.
	Timeout time.Duration
	// Spin is how long Wait polls before it sleeps, at most. 0: Wait sleeps at once.
	Spin time.Duration
	// Look is how often Wait returns because memory may have changed: a network interface writes memory
	// without a sign to the program. Writes with Notify end Wait at once. 0: a millisecond.
	Look time.Duration
}

const (
	defaultTimeout = 2 * time.Second
	defaultLook    = time.Millisecond
)

// Endpoint is a node that also serves the connections of others.
type Endpoint interface {
	fabric.Endpoint
	// Serve sets up queue pairs for a peer until its connection ends, and closes the connection. The caller
	// has made sure that it is the peer's. An earlier connection of the peer ends first, with its queue
	// pairs.
	Serve(peer fabric.NodeID, conn net.Conn) error
}

// complete checks c, and sets the fields that are 0.
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
