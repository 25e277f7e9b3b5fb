package baselinetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// TwoGroups are groups 1 and 300 of three processes each.
func TwoGroups() []multicast.Group {
	return []multicast.Group{
		{ID: 1, Members: []multicast.ProcessID{1, 2, 3}}, {ID: 300, Members: []multicast.ProcessID{4, 5, 6}},
	}
}

// Route encodes destinations as frames have them.
func Route(dest ...multicast.GroupID) (b []byte) {
	for _, g := range dest {
		b = varint.AppendUint(b, g)
	}
	return b
}

// Receive steps a process with a frame on a link that has just started.
func Receive(core multicast.Core, from multicast.ProcessID, data []byte) (out multicast.Output) {
	core.Step(&multicast.Input{Frames: []multicast.Frame{{Peer: from}, {Peer: from, Data: data}}}, &out)
	return out
}

// FuzzCodec: packets that can be read are the same after they were written and read again.
func FuzzCodec[Packet any](f *testing.F, read func(*Packet, *varint.Reader), frame func(...Packet) []byte) {
	f.Fuzz(func(t *testing.T, data []byte) {
		var all []Packet
		for r := varint.NewReader(data); r.Len() > 0; {
			var p Packet
			if read(&p, r); r.Err() != nil {
				return
			}
			all = append(all, p)
		}
		r := varint.NewReader(frame(all...))
		for i := range all {
			var p Packet
			read(&p, r)
			require.Equal(t, all[i], p)
		}
		require.NoError(t, r.Done())
	})
}
