package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/wire"
)

// framedTo opens a framed connection to the fortress, past the server's hello.
func (f *fortress) framedTo(config *tls.Config) (conn net.Conn, err error) {
	if f.shared {
		if conn, err = f.sharedTo(config); err != nil {
			return nil, err
		}
		return conn, helloOf(conn)
	}
	config.NextProtos = []string{framedProtocol}
	session := tls.Client(f.connect(), config)
	if err := session.Handshake(); err != nil {
		return nil, err
	}
	if err := helloOf(session); err != nil {
		return nil, err
	}
	return session, nil
}

// helloOf reads the server's hello.
func helloOf(conn net.Conn) error {
	var b [headSize]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return err
	}
	h, err := parseHead(&b)
	if err != nil || h.kind != kindHello {
		return errors.Join(err, errors.New("no hello"))
	}
	_, err = io.CopyN(io.Discard, conn, int64(h.length))
	return err
}

// sharedTo opens a connection through shared memory.
func (f *fortress) sharedTo(config *tls.Config) (net.Conn, error) {
	config.NextProtos = []string{sharedProtocol}
	door := f.server.gate.shared
	raw, err := door.dial(f.t.Context(), door.name)
	if err != nil {
		return nil, err
	}
	f.t.Cleanup(func() { _ = raw.Close() })
	deadline := time.Now().Add(20 * time.Second)
	if err := raw.SetDeadline(deadline); err != nil {
		return nil, err
	}
	session := tls.Client(raw, config)
	if _, err := io.ReadFull(session, make([]byte, len(introduction(0, door.name)))); err != nil {
		return nil, err
	}
	if _, err := session.Write([]byte{shareGo}); err != nil {
		return nil, err
	}
	conn, err := door.accept(raw, deadline)
	if err != nil {
		return nil, err
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn, conn.SetDeadline(deadline)
}

// bothWays runs a test over TCP and through shared memory.
func bothWays(t *testing.T, test func(t *testing.T, shared bool)) {
	t.Run("TCP", func(t *testing.T) { test(t, false) })
	t.Run("SharedMemory", func(t *testing.T) { test(t, true) })
}

// message encodes one message.
func message(k kind, call uint64, body []byte) []byte {
	return append(appendHead(nil, k, call, len(body)), body...)
}

// lastWords reads until a connection ends, and returns the reason that the server sends.
func lastWords(t *testing.T, conn io.Reader) string {
	all, err := io.ReadAll(conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server waits")
	for len(all) >= headSize {
		h, err := parseHead((*[headSize]byte)(all))
		require.NoError(t, err)
		all = all[headSize:]
		if h.kind == kindBye {
			return string(all[:h.length])
		}
		all = all[h.length:]
	}
	return ""
}

func TestFramedStrangersAreRefused(t *testing.T) { bothWays(t, framedStrangersAreRefused) }

func framedStrangersAreRefused(t *testing.T, shared bool) {
	f := newFortressWith(t, limits{}, shared)
	rogue := newAuthority(t, "prod")
	for name, c := range map[string]*tls.Config{
		"no certificate":  showing(),
		"another CA":      showing(rogue.forge("globalfs://prod/server/n1", asIs)),
		"another cluster": showing(f.certs.forge("globalfs://test/server/n1", asIs)),
		"no role":         showing(f.certs.forge("globalfs://prod/root/n1", asIs)),
	} {
		before := f.calls.Load()
		conn, err := f.framedTo(c)
		require.Error(t, err, name)
		require.Nil(t, conn)
		require.Equal(t, before, f.calls.Load(), name)
		f.requireGood(name)
	}
}

// Garbage of clients with good certificates ends their connections with a reason, and nothing else.
func TestFramedGarbage(t *testing.T) { bothWays(t, framedGarbage) }

func framedGarbage(t *testing.T, shared bool) {
	f := newFortressWith(t, smallLimits(), shared)
	noise := bytes.Repeat([]byte{0xa5, 0x16, 0x03, 0x00, 0xff}, 5_000)
	call := message(kindCall, 1, []byte{7, 0})
	long := appendHead(nil, kindCall, 1, MaxCall+100)
	packet := &wire.Packet{From: 2, To: 1, Source: &wire.Generation{Incarnation: 1 << 40}}
	for name, a := range map[string]struct {
		data []byte
		says string
	}{
		"noise":                  {noise, "unknown kind"},
		"a message of 4 GiB":     {appendHead(nil, kindCall, 1, 1<<32-1), "the longest message has"},
		"a request too long":     {long, "the longest message has"},
		"an empty call":          {message(kindCall, 1, nil), "a call cannot be read"},
		"a call without end":     {message(kindCall, 1, bytes.Repeat([]byte{0xff}, 20)), "a call cannot be read"},
		"a time without end":     {message(kindCall, 1, binary.AppendUvarint([]byte{1}, 1<<63)), "a call cannot be read"},
		"a reply":                {message(kindReply, 1, nil), "kind 3"},
		"a hello":                {message(kindHello, 0, []byte{1}), "kind 1"},
		"packets":                {appendPackets(nil, &wire.Batch{Packets: []*wire.Packet{packet}}), "only servers have links"},
		"one number twice":       {join(message(kindCall, 9, []byte{0, 0}), message(kindCall, 9, []byte{0, 0})), "two calls under way have the number 9"},
		"a ping with a body":     {message(kindPing, 0, noise[:8]), "the longest message has 0"},
		"a cancel for nobody":    {join(message(kindCancel, 77, nil), call, message(kindHello, 0, nil)), "kind 1"},
		"its own bye":            {message(kindBye, 0, []byte("enough")), ""},
		"a bye that is too long": {appendHead(nil, kindBye, 0, 1<<20), "the longest message has"},
	} {
		f.server.control.mu.Lock()
		f.server.control.handler = func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, nil }
		f.server.control.mu.Unlock()
		conn, err := f.framedTo(f.certs.client("bad", posix.Everybody()).ClientConfig())
		require.NoError(t, err)
		_, _ = conn.Write(a.data)
		require.Contains(t, lastWords(t, conn), a.says, name)
		f.requireGood(name)
	}
	require.Eventually(t, func() bool {
		f.server.gate.guests.mu.Lock()
		defer f.server.gate.guests.mu.Unlock()
		return f.server.gate.guests.accounts["client/bad"] == nil
	}, 30*time.Second, time.Millisecond, "all is given back")
}

// Servers may send any well-formed state of links, and nothing that is malformed.
func TestFramedWildPackets(t *testing.T) { bothWays(t, framedWildPackets) }

func framedWildPackets(t *testing.T, shared bool) {
	f := newFortressWith(t, limits{}, shared)
	good := &wire.Generation{Incarnation: 1 << 40}
	batch := func(p *wire.Packet) []byte { return appendPackets(nil, &wire.Batch{Packets: []*wire.Packet{p}}) }
	cut := batch(&wire.Packet{From: 4, To: 1, Source: good, First: 1, Frames: [][]byte{[]byte("frame")}})
	cut = message(kindPackets, 0, cut[headSize:len(cut)-2])
	for name, data := range map[string][]byte{
		"no incarnation": batch(&wire.Packet{From: 4, To: 1}),
		"cut":            cut,
		"many frames":    message(kindPackets, 0, binary.AppendUvarint([]byte{4, 1, 1, 1, 1, 1, 1, 1}, 1<<40)),
	} {
		conn, err := f.framedTo(f.certs.server("n3").ClientConfig())
		require.NoError(t, err)
		_, _ = conn.Write(data)
		require.NotEmpty(t, lastWords(t, conn), name)
		f.requireGood(name)
	}
}
