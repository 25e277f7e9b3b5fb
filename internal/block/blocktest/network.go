package blocktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// ErrDown is the error of a call to a server that is down.
var ErrDown = errors.New("connection refused")

// Network is the network between the processes of a Region. 0 stands for all clients. At first it has no
// faults.
type Network struct {
	faults sync.Mutex
	down   map[multicast.ProcessID]bool    // GUARDED_BY faults
	hung   map[multicast.ProcessID]bool    // GUARDED_BY faults
	cut    map[[2]multicast.ProcessID]bool // GUARDED_BY faults; both ways, the lower one first
	lossy  float64                         // GUARDED_BY faults; the share of lost messages
	delay  time.Duration                   // GUARDED_BY faults; the maximum delay of messages
	random *rand.Rand                      // GUARDED_BY faults
}

// SetDown makes calls to a server fail at once.
func (n *Network) SetDown(server multicast.ProcessID, down bool) {
	n.faults.Lock()
	defer n.faults.Unlock()
	if n.down == nil {
		n.down = make(map[multicast.ProcessID]bool)
	}
	n.down[server] = down
}

// SetHung makes calls to a server wait for the end of their context.
func (n *Network) SetHung(server multicast.ProcessID, hung bool) {
	n.faults.Lock()
	defer n.faults.Unlock()
	if n.hung == nil {
		n.hung = make(map[multicast.ProcessID]bool)
	}
	n.hung[server] = hung
}

// SetCut cuts the connection of two processes, or restores it.
func (n *Network) SetCut(a, b multicast.ProcessID, cut bool) {
	n.faults.Lock()
	defer n.faults.Unlock()
	if n.cut == nil {
		n.cut = make(map[[2]multicast.ProcessID]bool)
	}
	n.cut[[2]multicast.ProcessID{min(a, b), max(a, b)}] = cut
}

// Disturb delays messages by up to delay, and loses a share of them.
func (n *Network) Disturb(random *rand.Rand, delay time.Duration, lossy float64) {
	n.faults.Lock()
	defer n.faults.Unlock()
	n.random, n.delay, n.lossy = random, delay, lossy
}

// Calm ends all faults but the delay.
func (n *Network) Calm() {
	n.faults.Lock()
	defer n.faults.Unlock()
	clear(n.down)
	clear(n.hung)
	clear(n.cut)
	n.lossy = 0
}

// Reaches reports whether messages can get from one process to another.
func (n *Network) Reaches(from, to multicast.ProcessID) bool {
	n.faults.Lock()
	defer n.faults.Unlock()
	return !n.down[to] && !n.hung[to] && !n.hung[from] && !n.cut[[2]multicast.ProcessID{min(from, to), max(from, to)}]
}

// pass lets one message through, late or never.
func (n *Network) pass(ctx context.Context, from, to multicast.ProcessID) error {
	n.faults.Lock()
	down := n.down[to]
	lost := n.hung[to] || n.hung[from] || n.cut[[2]multicast.ProcessID{min(from, to), max(from, to)}]
	delay := time.Duration(0)
	if n.random != nil {
		lost = lost || n.random.Float64() < n.lossy
		delay = time.Duration(n.random.Int64N(int64(n.delay) + 1))
	}
	n.faults.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case lost:
		<-ctx.Done()
		return ctx.Err()
	case down:
		return ErrDown
	case delay == 0:
		return nil
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
