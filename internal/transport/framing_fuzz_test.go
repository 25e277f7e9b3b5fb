package transport

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// FuzzPackets: decoding, encoding and decoding again yields the same packets.
func FuzzPackets(f *testing.F) {
	good := &wire.Generation{Incarnation: 1, Restarts: 1 << 40}
	f.Add([]byte{})
	f.Add(appendPackets(nil, &wire.Batch{Packets: []*wire.Packet{
		{From: 1, To: 2, Source: good, Target: good, First: 1, Frames: [][]byte{{1}, {2}}, Taken: 1<<64 - 1},
		{From: 1<<32 - 1, To: 2, Source: good, Target: &wire.Generation{}},
	}})[headSize:])
	f.Fuzz(func(t *testing.T, body []byte) {
		batch, err := parsePackets(body)
		if err != nil {
			return
		}
		again, err := parsePackets(appendPackets(nil, batch)[headSize:])
		require.NoError(t, err)
		require.True(t, proto.Equal(batch, again))
	})
}

// FuzzFramedServer sends a server messages that no correct peer sends. The server ends the connection, or
// answers; a call of another connection is answered.
func FuzzFramedServer(f *testing.F) {
	f.Add(join(message(kindCall, 1, []byte{0, 0, 'x'}), message(kindCancel, 1, nil), message(kindPing, 0, nil)))
	f.Add(appendPackets(nil, &wire.Batch{Packets: []*wire.Packet{{From: 1, To: 2, Source: &wire.Generation{Incarnation: 1}}}}))
	f.Add(appendHead(nil, kindCall, 1, MaxCall))
	f.Add([]byte{255, 255, 255, 255, 2})
	s, err := Listen(Config{Address: "127.0.0.1:0", Resolve: func(multicast.ProcessID) (string, bool) { return "127.0.0.1:1", true }})
	require.NoError(f, err)
	s.Control(echo)
	c := Dial(Config{})
	f.Cleanup(func() { require.NoError(f, c.Close()); require.NoError(f, s.Close()) })
	f.Fuzz(func(t *testing.T, data []byte) {
		conn, err := net.Dial("tcp", s.Address())
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		_, err = conn.Write(append([]byte(greeting), data...))
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		_, err = io.Copy(io.Discard, conn)
		if err != nil {
			require.NotErrorIs(t, err, context.DeadlineExceeded)
		}
		require.NoError(t, conn.Close())
		reply, err := c.CallAddress(t.Context(), s.Address(), []byte("hello"))
		require.NoError(t, err)
		require.Equal(t, "echo hello", string(reply))
	})
}
