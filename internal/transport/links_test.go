package transport

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
	"github.com/stretchr/testify/require"
)

// conform runs a part of the suite on all implementations.
func conform(t *testing.T, test func(t *testing.T, w world)) {
	for name, open := range worlds {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := open(t)
				test(t, w)
				w.close() // goroutines that still run are a deadlock of the bubble
			})
		})
	}
}

// settle waits longer than the interval at which each link sends its position.
func settle() { time.Sleep(3 * positionInterval); synctest.Wait() }

func bootAll(t *testing.T, w world, n int) []*process {
	var all []*process
	for id := range n {
		all = append(all, boot(t, w, multicast.ProcessID(id+1), 1))
	}
	for _, p := range all {
		for _, q := range all {
			require.NoError(t, p.send(q.id, 0)) // opens the link
		}
	}
	settle()
	return all
}

func stopAll(all []*process) {
	for _, p := range all {
		p.stop()
	}
}

func TestLinksAreFIFO(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		all := bootAll(t, w, 5)
		for range 100 {
			for _, p := range all {
				for _, q := range all {
					require.NoError(t, p.send(q.id, rand.IntN(100)))
				}
			}
		}
		require.NoError(t, all[0].send(2, MaxFrame-100))
		settle()
		for _, p := range all {
			for _, q := range all {
				requireInStep(t, p, q)
			}
		}
		require.GreaterOrEqual(t, all[1].seen, 501)
		stopAll(all)
	})
}

func TestFrameSizes(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		p := boot(t, w, 1, 1)
		require.ErrorContains(t, p.links.Send(2, nil), "empty")
		require.ErrorIs(t, p.links.Send(2, make([]byte, MaxFrame+1)), ErrTooLong)
		require.NoError(t, p.links.Close())
		require.ErrorIs(t, p.links.Send(2, []byte{1}), ErrClosed)
		p.stop()
	})
}

// TestRandomFaults breaks connections and restarts processes while frames flow.
func TestRandomFaults(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		const n = 4
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		all := bootAll(t, w, n)
		lives := [n]uint64{1, 1, 1, 1}
		for range 2000 {
			i := r.IntN(n)
			switch r.IntN(100) {
			case 0:
				all[i].stop()
				if r.IntN(2) == 0 {
					time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
				}
				lives[i]++
				all[i] = boot(t, w, multicast.ProcessID(i+1), lives[i])
			case 1, 2:
				w.disturb()
			case 3:
				time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
			case 4, 5, 6:
				synctest.Wait()
			default:
				require.NoError(t, all[i].send(multicast.ProcessID(r.IntN(n)+1), r.IntN(1000)))
			}
		}
		for range 2 { // the first opens links that are not there yet
			for _, p := range all {
				for _, q := range all {
					require.NoError(t, p.send(q.id, 0))
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		seen := 0
		for _, p := range all {
			for _, q := range all {
				requireInStep(t, p, q)
			}
			seen += p.seen
		}
		t.Logf("%d frames arrived in the last lives", seen)
		stopAll(all)
	})
}

func TestRestartIsSeenBySilentPeers(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		all := bootAll(t, w, 2)
		require.NoError(t, all[0].send(2, 0))
		settle()
		before := *all[0].out[2]
		all[1].stop()
		for range 10 {
			require.NoError(t, all[0].send(2, 0)) // lost with the process
		}
		settle()
		all[1] = boot(t, w, 2, 2)
		settle()
		require.Equal(t, before.session+1, all[0].out[2].session)
		require.NoError(t, all[0].send(2, 0))
		settle()
		requireInStep(t, all[0], all[1])
		require.Equal(t, 1, all[1].seen)
		stopAll(all)
	})
}

func TestIncarnationMustGrow(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		p := boot(t, w, 1, 5)
		p.stop()
		again := w.endpoint(1)
		_, err := again.Links(5)
		require.ErrorContains(t, err, "not higher than the last one, 5")
		require.NoError(t, again.Close())
		_, err = again.Links(6)
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestBacklog(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		sender := boot(t, w, 1, 1)
		slow := open(t, w, 2, 1)
		require.NoError(t, sender.send(2, 0))
		settle()
		require.NotNil(t, sender.out[2])
		accepted := 0
		var err error
		for ; err == nil; accepted++ {
			err = sender.send(2, 1<<20)
			synctest.Wait()
		}
		require.ErrorIs(t, err, ErrBacklog)
		require.InDelta(t, Window>>20, accepted, 2)
		require.ErrorIs(t, sender.send(2, 0), ErrBacklog)
		go slow.receive()
		settle()
		require.Equal(t, uint64(2), sender.out[2].session, "the sender's own side starts again")
		require.NoError(t, sender.send(2, 0))
		settle()
		requireInStep(t, sender, slow)
		stopAll([]*process{sender, slow})
	})
}

// A frame that is too long is lost, and its link restarts: the peer must not receive later frames.
func TestTooLongFrame(t *testing.T) {
	conform(t, func(t *testing.T, w world) {
		all := bootAll(t, w, 2)
		require.NoError(t, all[0].send(2, 10))
		settle()
		session := all[0].out[2].session
		require.ErrorIs(t, all[0].links.Send(2, make([]byte, MaxFrame+1)), ErrTooLong)
		settle()
		require.Equal(t, session+1, all[0].out[2].session, "the link starts again at both ends")
		require.NoError(t, all[0].send(2, 10))
		settle()
		requireInStep(t, all[0], all[1])
		stopAll(all)
	})
}
