package region

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// TestUsualTime follows the times of a server: most answers come within it, and it grows when the server gets
// slow.
func TestUsualTime(t *testing.T) {
	p := newPeers(nil, 10*time.Second)
	require.Equal(t, firstUsual, p.usual(1))
	for range 50 {
		p.recordTime(1, 100*time.Microsecond)
	}
	require.Equal(t, minUsual, p.usual(1))
	for i := range 200 {
		p.recordTime(1, time.Duration(20+i%10)*time.Millisecond)
	}
	require.InDelta(t, 35*time.Millisecond, p.usual(1), float64(7*time.Millisecond))
	for range 50 {
		p.recordTime(1, time.Minute)
	}
	require.Equal(t, maxUsual, p.usual(1))
}

// TestTooSlowTooOften suspects a server that is repeatedly too slow, but not a server that was rarely asked.
func TestTooSlowTooOften(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPeers(nil, time.Second)
		servers := []multicast.ProcessID{1, 2}
		for range 100 {
			p.recordTime(1, time.Millisecond)
			p.recordOvertaken(1, time.Microsecond)
		}
		require.Equal(t, servers, p.order(servers))
		for range patience {
			require.Equal(t, servers, p.order(servers))
			p.recordOvertaken(1, time.Second)
		}
		require.Equal(t, []multicast.ProcessID{2, 1}, p.order(servers))
		time.Sleep(suspicion + 1) // virtual
		require.Equal(t, servers, p.order(servers))
	})
}

// An answer with an error of the disk does not count as an answer: the server is silent.
func TestHeardIsWhoCanWork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		answer := map[multicast.ProcessID][]byte{
			1: replyOK(0), 2: replyError(block.ErrNotFound), 3: replyError(errors.New("input/output error")), 4: replyError(errStale),
		}
		p := newPeers(callerFunc(func(to multicast.ProcessID) []byte { return answer[to] }), time.Second)
		servers := []multicast.ProcessID{1, 2, 3, 4}
		p.forget(servers)
		time.Sleep(time.Minute) // virtual
		require.Equal(t, servers, p.idle(servers, time.Minute))
		for _, s := range servers {
			_, _ = p.call(t.Context(), s, nil)
		}
		require.Equal(t, []multicast.ProcessID{3}, p.idle(servers, time.Second))
		p.forget(servers[:1])
		require.Len(t, p.servers, 1)
	})
}

type callerFunc func(to multicast.ProcessID) []byte

func (f callerFunc) Call(_ context.Context, to multicast.ProcessID, _ []byte) ([]byte, error) {
	return f(to), nil
}
