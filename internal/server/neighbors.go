package server

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// An update costs each replica of its partition about the same, whichever replica was asked. So a client
// that gives way at one server must not work without a limit through another one. While a bounded client
// uses a replica, the server asks the other replicas of the partition for the load of their servers, and
// judges its clients by that, too (contention.learn). The request consists of the byte loadRequest. A server
// of an earlier version refuses it, and then counts as idle.

const loadRequest = 0x81

const (
	// loadEvery is the pause between two requests for the load of a server.
	loadEvery = 100 * time.Millisecond
	// loadTimeout bounds the wait for an answer. It is shorter than activeFor, so that a server that hangs
	// does not hide the load of the others.
	loadTimeout = 500 * time.Millisecond
)

// isOfServers reports whether a request to a replica is one that only servers make, and that the driver does
// not answer.
func isOfServers(request []byte) bool {
	return len(request) > 0 && (request[0] == transferRequest || request[0] == loadRequest)
}

// pressure is the state of the processors of a server, and of the clients that work there.
type pressure struct {
	short bool     // the processors were short in the last sample
	first bool     // a client that is not narrow is working
	least [2]rival // the working clients with the least use
}

// rival is a working client in the last sample. The zero rival is none.
type rival struct {
	client string
	use    time.Duration
}

// add adds a working client, unless it is there.
func (l *pressure) add(one rival) {
	switch {
	case one.client == "" || one.client == l.least[0].client || one.client == l.least[1].client:
	case l.least[0].client == "" || one.use < l.least[0].use:
		l.least[0], l.least[1] = one, l.least[0]
	case l.least[1].client == "" || one.use < l.least[1].use:
		l.least[1] = one
	}
}

// of returns the use of a client, if it is among the clients with the least use.
func (l *pressure) of(client string) time.Duration {
	for _, r := range l.least {
		if r.client == client {
			return r.use
		}
	}
	return 0
}

// hasOther reports whether another client than client works.
func (l *pressure) hasOther(client string) bool {
	return l.least[0].client != "" && l.least[0].client != client || l.least[1].client != ""
}

// append appends the encoding of l. It begins with loadRequest, with which no reply of a replica begins.
func (l *pressure) append(b []byte) []byte {
	b = varint.AppendUint(b, uint64(loadRequest))
	b = varint.AppendUint(varint.AppendUint(b, varint.Bit(l.short)), varint.Bit(l.first))
	for _, r := range l.least {
		b = varint.AppendUint(varint.AppendBytes(b, r.client), uint64(r.use))
	}
	return b
}

// decodePressure reads a load that append has written.
func decodePressure(b []byte) (l pressure, err error) {
	r := varint.NewReader(b)
	if r.Uint64() != loadRequest {
		r.Fail()
	}
	l.short, l.first = r.Uint(1) == 1, r.Uint(1) == 1
	for i := range l.least {
		l.least[i] = rival{r.String(), time.Duration(r.Uint(math.MaxInt64))}
	}
	return l, r.Done()
}

// askLoads asks the other replicas of a partition for the load of their servers, while bounded clients use
// the replica.
func (h *hosted) askLoads(ctx context.Context, s *Server) {
	for {
		select {
		case <-h.bounded:
		case <-ctx.Done():
			return
		}
		var asking sync.WaitGroup
		for _, other := range s.plan.Load().Partitions[h.partition].Replicas {
			if other.Process == h.process {
				continue
			}
			asking.Go(func() {
				if l, err := h.loadOf(ctx, other.Process); err == nil {
					s.admission.contention.learn(other.Server, l)
				}
			})
		}
		asking.Wait()
		if pause.For(ctx, loadEvery) != nil {
			return
		}
	}
}

// loadOf asks another replica for the load of its server.
func (h *hosted) loadOf(ctx context.Context, other multicast.ProcessID) (pressure, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	answer, err := h.endpoint.Call(ctx, other, []byte{loadRequest})
	if err != nil {
		return pressure{}, err
	}
	return decodePressure(answer)
}

// noteBoundedUse records that a bounded client uses the replica.
func (h *hosted) noteBoundedUse() {
	select {
	case h.bounded <- struct{}{}:
	default:
	}
}

// neighbor is another server, and what it has answered last.
type neighbor struct {
	pressure
	learned time.Time
}

// learn records the load of another server.
func (c *contention) learn(server string, l pressure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.neighbors[server] = neighbor{l, now}
	c.there, c.learned = pressure{}, now
	use := map[string]time.Duration{} // by client, of all neighbors
	for name, n := range c.neighbors {
		if now.Sub(n.learned) >= activeFor {
			delete(c.neighbors, name)
			continue
		}
		c.there.short = c.there.short || n.short && n.least[0].client != ""
		c.there.first = c.there.first || n.first
		for _, one := range n.least {
			use[one.client] += one.use
		}
	}
	for client, use := range use {
		c.there.add(rival{client, use})
	}
}

// pressure returns the load of this server.
func (c *contention) pressure() pressure {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sample(time.Now())
	return c.here
}

// others returns the load of the other servers; the zero load if it is not known. The caller holds mu.
func (c *contention) others(now time.Time) pressure {
	if now.Sub(c.learned) >= activeFor {
		return pressure{}
	}
	return c.there
}
