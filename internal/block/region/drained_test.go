package region_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// slowPuts is a disk with slow syncs.
type slowPuts struct {
	*blocktest.Memory
	takes time.Duration
}

// Put implements block.Store.
func (s *slowPuts) Put(ctx context.Context, b block.Block) error {
	if err := pause.For(ctx, s.takes); err != nil {
		return err
	}
	return s.Memory.Put(ctx, b)
}

// A leaving server is not drained while a put is under way that began before. Otherwise its removal would
// remove an acknowledged copy, the only one here.
func TestLeavingServerIsNotDrainedDuringAPut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		slow := &slowPuts{blocktest.NewMemory(blocktest.Big), 200 * time.Millisecond}
		r := blocktest.NewRegion(t, 1, blocktest.NewMemory(blocktest.Big), slow, blocktest.NewMemory(blocktest.Big))
		defer r.Close()
		r.Run(1, 2, 3)
		id := block.ID{1}
		for r.Ring.Owners(id, 1)[0] != 2 {
			id[0]++
		}
		remote, err := region.NewRemote(r, []multicast.ProcessID{1, 3}, time.Minute)
		require.NoError(t, err)
		put := make(chan error, 1)
		go func() { put <- remote.Put(t.Context(), block.New(id, []byte("data"))) }()
		time.Sleep(10 * time.Millisecond) // virtual: it is on its way to the disk of server 2

		members := r.Node(1).Members()
		members.Version++
		members.Servers[1].Leaving = true
		for p := range multicast.ProcessID(3) {
			require.NoError(t, r.Node(p+1).SetMembers(t.Context(), members))
		}
		for waited := 0; !r.Node(2).Status().Drained; waited++ {
			require.Less(t, waited, 60_000)
			time.Sleep(10 * time.Millisecond) // virtual
		}
		members.Version++
		members.Servers = append(members.Servers[:1:1], members.Servers[2])
		require.NoError(t, r.Node(1).SetMembers(t.Context(), members))
		require.NoError(t, <-put)
		r.Crash(2)
		got, err := remote.Get(t.Context(), id, nil)
		require.NoError(t, err)
		require.Equal(t, "data", string(got))
	})
}
