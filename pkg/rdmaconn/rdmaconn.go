package rdmaconn

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/verbs"
)

// Endpoint is one end of a fabric with two nodes.
type Endpoint interface {
	fabric.Endpoint
	// Serve lets the peer use the endpoint until the connection ends.
	Serve(peer fabric.NodeID, conn net.Conn) error
}

// Open creates an endpoint. dial returns the connection to the only peer.
type Open func(self fabric.NodeID, dial func(context.Context, fabric.NodeID) (net.Conn, error)) (Endpoint, error)

// Verbs returns a function that opens endpoints on an RDMA device. The empty name means the first device of
// the machine. The program must be built with -tags verbs.
func Verbs(device string) Open {
	return func(self fabric.NodeID, dial func(context.Context, fabric.NodeID) (net.Conn, error)) (Endpoint, error) {
		// All writes notify the peer, so Wait needs no periodic checks of the memory.
		return verbs.New(verbs.Config{Self: self, Dial: dial, Device: device, Look: time.Hour})
	}
}

// Config of connections.
type Config struct {
	Open Open
	// Ring is the number of bytes that may be under way in each direction: a multiple of 8, from 4 KiB to 64
	// MiB. A connection uses the smaller value of both sides. 0: 1 MiB.
	Ring int
	// Timeout bounds the set-up of a connection. 0: ten seconds.
	Timeout time.Duration
}

const (
	minRing        = 4 << 10
	maxRing        = 64 << 20
	defaultRing    = 1 << 20
	defaultTimeout = 10 * time.Second
)

// complete validates c, and replaces zero fields by their defaults.
func (c Config) complete() (Config, error) {
	if c.Ring == 0 {
		c.Ring = defaultRing
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	switch {
	case c.Open == nil:
		return c, errors.New("rdmaconn: Config.Open is missing: give Verbs, or a function that makes an endpoint")
	case !validRing(uint64(c.Ring)):
		return c, fmt.Errorf("rdmaconn: Config.Ring is %d: give a multiple of 8 from %d to %d, or 0 for %d", c.Ring, minRing, maxRing, defaultRing)
	case c.Timeout < 0:
		return c, fmt.Errorf("rdmaconn: Config.Timeout is %v: give a positive duration, or 0 for %v", c.Timeout, defaultTimeout)
	}
	return c, nil
}

func validRing(n uint64) bool { return n >= minRing && n <= maxRing && n%8 == 0 }

// The hello is the first message of a set-up connection. Both set-up connections of a connection send the
// same token. The first hello also has the size of the ring; the second has 0 in its place.
const (
	magic     = "gfsrdma\x01"
	tokenSize = 16
	helloSize = len(magic) + tokenSize + 8
)

type token [tokenSize]byte

// The nodes of a connection, and the region of each.
const (
	dialler   = fabric.NodeID(1)
	listening = fabric.NodeID(2)
	theRegion = fabric.RegionID(1)
)

// Dial opens a connection. It calls dial twice, to open the two set-up connections to a Listener.
func Dial(ctx context.Context, cfg Config, dial func(ctx context.Context) (net.Conn, error)) (*Conn, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	out, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	in, ring, err := second(ctx, cfg, out, dial)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rdmaconn: set up a connection to %v: %w", out.RemoteAddr(), err), out.Close())
	}
	return newConn(cfg, ring, sides{self: dialler, peer: listening, out: out, in: in})
}

// second opens the second set-up connection. It returns the connection and the size of the rings.
func second(ctx context.Context, cfg Config, out net.Conn, dial func(ctx context.Context) (net.Conn, error)) (net.Conn, int, error) {
	stop := context.AfterFunc(ctx, func() { _ = out.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var t token
	if _, err := rand.Read(t[:]); err != nil {
		return nil, 0, err
	}
	if _, err := out.Write(hello(t, cfg.Ring)); err != nil {
		return nil, 0, err
	}
	var b [8]byte
	if _, err := io.ReadFull(out, b[:]); err != nil {
		return nil, 0, fmt.Errorf("the listener does not answer: %w", err)
	}
	ring := binary.LittleEndian.Uint64(b[:])
	if !validRing(ring) || ring > uint64(cfg.Ring) {
		return nil, 0, fmt.Errorf("the listener wants rings of %d bytes, this side has %d: it is broken or of another version", ring, cfg.Ring)
	}
	in, err := dial(ctx)
	if err != nil {
		return nil, 0, err
	}
	if _, err := in.Write(hello(t, 0)); err != nil {
		return nil, 0, errors.Join(err, in.Close())
	}
	// The listener answers when its endpoint is ready.
	if _, err := io.ReadFull(out, b[:1]); err != nil || b[0] != 0 {
		return nil, 0, errors.Join(fmt.Errorf("the listener cannot open its endpoint (%d, %v): its log says why", b[0], err), in.Close())
	}
	return in, int(ring), nil
}

func hello(t token, ring int) []byte {
	return binary.LittleEndian.AppendUint64(append([]byte(magic), t[:]...), uint64(ring))
}

// sides has the nodes of a connection, and its set-up connections: out is for operations of this side on the
// peer, in for operations of the peer on this side.
type sides struct {
	self, peer fabric.NodeID
	out, in    net.Conn
}

func (s *sides) close() error { return errors.Join(s.out.Close(), s.in.Close()) }

// newConn opens this side of a connection.
func newConn(cfg Config, ring int, s sides) (*Conn, error) {
	var once sync.Once
	dial := func(context.Context, fabric.NodeID) (conn net.Conn, err error) {
		err = errReset
		once.Do(func() { conn, err = s.out, nil })
		return conn, err
	}
	e, err := cfg.Open(s.self, dial)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	m, err := e.Register(theRegion, ringAt+ring)
	if err == nil {
		err = e.Grant(theRegion, s.peer, fabric.Writable)
	}
	if err == nil && s.self == listening {
		_, err = s.in.Write([]byte{0}) // function second of the dialling side waits for this byte
	}
	if err != nil {
		return nil, errors.Join(err, e.Close(), s.close())
	}
	c := &Conn{
		endpoint: e, local: s.out.LocalAddr(), remote: s.out.RemoteAddr(), changed: make(chan struct{}),
		stream: stream{memory: m, peer: s.peer, region: theRegion, ring: uint64(ring)},
	}
	c.running.Go(func() {
		_ = e.Serve(s.peer, s.in) // returns when the peer has died or has closed the connection
		c.dead()
	})
	go func() {
		c.run()
		_ = s.close() // the endpoint does not need the set-up connections any more
	}()
	return c, nil
}
