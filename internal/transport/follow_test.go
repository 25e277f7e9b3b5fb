package transport

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/bubble"
)

// TestLinksFollowAProcess: a process starts again at another server, while its old server is still there or
// not.
func TestLinksFollowAProcess(t *testing.T) {
	for name, gone := range map[string]bool{"the old server stays": false, "the old server is gone": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newTCPWorld(t, nil)
				all := bootAll(t, w, 2)
				all[1].stop()
				if gone {
					require.NoError(t, w.servers[2].Close())
				}
				for range 10 {
					require.NoError(t, all[0].send(2, 0)) // lost with the process
				}
				settle()
				w.move(2, address(0))
				all[1] = boot(t, w, 2, 2)
				settle()
				require.Equal(t, uint64(2), all[0].out[2].session)
				require.NoError(t, all[0].send(2, 0))
				require.NoError(t, all[1].send(1, 0))
				settle()
				requireInStep(t, all[0], all[1])
				requireInStep(t, all[1], all[0])
				require.Equal(t, []string{address(0), address(1)}, sendersOf(w.servers[1]), "the way to the old address has ended")
				stopAll(all)
				w.close()
			})
		})
	}
}

func sendersOf(s *Server) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.senders))
}

// TestLinksFollowAnAddress: the address of a server changes while its processes run on. No sent frame is
// lost.
func TestLinksFollowAnAddress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, nil)
		all := bootAll(t, w, 2)
		other := boot(t, w, 5, 1) // has moved before, so that there is a stream to the new address when the link comes
		require.NoError(t, all[0].send(5, 0))
		settle()
		for range 500 {
			require.NoError(t, all[0].send(2, 10_000))
		}
		w.pipes.rename(address(2), address(9)) // some packets were written and are lost
		w.move(5, address(9))
		for range 500 {
			require.NoError(t, all[0].send(2, 100))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Less(t, all[1].seen, 1000)
		require.Contains(t, sendersOf(w.servers[1]), address(9))
		w.move(2, address(9))
		settle()
		require.Equal(t, uint64(1), all[0].out[2].session, "the session goes on")
		requireInStep(t, all[0], all[1])
		require.GreaterOrEqual(t, all[1].seen, 1000)
		require.False(t, w.log.Has("packet refused"), "the new address is not sent the second half")
		stopAll(append(all, other))
		w.close()
	})
}

// Closed links leave no unused sender.
func TestSendersEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, nil)
		all := bootAll(t, w, 2)
		require.Equal(t, []string{address(1), address(2)}, sendersOf(w.servers[1]))
		stopAll(all)
		settle()
		require.Empty(t, sendersOf(w.servers[1]))
		all = []*process{boot(t, w, 1, 2), boot(t, w, 2, 2)}
		require.NoError(t, all[0].send(2, 0))
		settle()
		require.NoError(t, all[0].send(2, 0))
		settle()
		requireInStep(t, all[0], all[1])
		stopAll(all)
		w.close()
	})
}
