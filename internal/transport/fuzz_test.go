package transport

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// FuzzDeliver gives a server batches that no correct peer sends. For any batches, the windows bound the
// memory that they leave, and a peer with another process is served.
func FuzzDeliver(f *testing.F) {
	good := &wire.Generation{Incarnation: 1}
	for _, batch := range []*wire.Batch{
		{},
		{Packets: []*wire.Packet{{}}},
		{Packets: []*wire.Packet{{From: 1, To: 2}}},
		{Packets: []*wire.Packet{{From: 1, To: 2, Source: good, Target: good}}},
		{Packets: []*wire.Packet{
			{From: 1, To: 2, Source: good, Target: good, First: 1, Frames: [][]byte{{1}, {2}}},
			{From: 1, To: 2, Source: good, Target: good, First: 2, Frames: [][]byte{{2}, {3}}, Taken: 1},
		}},
		{Packets: []*wire.Packet{{From: 1, To: 2, Source: good, Target: good, First: 1 << 63, Frames: [][]byte{{1}}, Taken: 1<<64 - 1}}},
		{Packets: []*wire.Packet{{From: 2, To: 2, Source: good, Target: good, First: 1, Frames: [][]byte{{}}}}},
		{Packets: []*wire.Packet{{From: 1<<32 - 1, To: 2, Source: &wire.Generation{Incarnation: 1<<64 - 1, Restarts: 1<<64 - 1}}}},
	} {
		data, err := proto.Marshal(batch)
		require.NoError(f, err)
		f.Add(data, data)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s, err := Listen(Config{Address: "127.0.0.1:0", Resolve: func(multicast.ProcessID) (string, bool) { return "127.0.0.1:1", true }})
		require.NoError(t, err)
		defer s.Close()
		links, err := s.Endpoint(2).Links(1)
		require.NoError(t, err)
		for _, data := range [][]byte{first, second} {
			batch := new(wire.Batch)
			if proto.Unmarshal(data, batch) != nil {
				continue
			}
			_ = s.deliver(batch)
		}
		requireBounded(t, links.(*grpcLinks))

		const stranger = 1 << 20
		greeting := func(first uint64, frames ...[]byte) *wire.Batch {
			return &wire.Batch{Packets: []*wire.Packet{{
				From: stranger, To: 2, Source: &wire.Generation{Incarnation: 1<<64 - 1, Restarts: 1<<64 - 1}, Target: &wire.Generation{Incarnation: 1},
				First: first, Frames: frames,
			}}}
		}
		if links.(*grpcLinks).ends[stranger] != nil {
			return // the batches were about this one
		}
		require.NoError(t, s.deliver(greeting(0)))
		require.NoError(t, s.deliver(greeting(1, []byte("hello"))))
		found := false
		receiver := receiving(links)
		for into := make([]multicast.Frame, 1); !found; {
			_, err := receiver.Receive(t.Context(), into)
			require.NoError(t, err)
			found = into[0].Peer == stranger && string(into[0].Data) == "hello"
		}
	})
}

// requireBounded checks that no peer has more than a window here.
func requireBounded(t *testing.T, k *grpcLinks) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for peer, e := range k.ends {
		require.LessOrEqual(t, e.unread+e.stale, Window+2*frameOverhead, "process %d", peer)
		require.LessOrEqual(t, e.bytes, Window)
		require.LessOrEqual(t, e.accepted, e.arrived)
	}
}
