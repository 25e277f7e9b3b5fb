package driver

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/fabric"
)

// look is the longest time for which the watching goroutine waits for an event before it looks again.
const look = time.Second

// errNoMemory means that a node works in one-sided memory and its driver has none.
var errNoMemory = errors.New("the node changes rights or begins operations on one-sided memory, and its driver has no endpoint")

// memory is the one-sided memory of a node. Each event causes a turn, and each turn takes the completions
// that have arrived. The node reads the memory itself to find the writes of peers. An endpoint that is a
// notifier runs turns in its own goroutines. Otherwise a goroutine waits for events.
type memory struct {
	endpoint fabric.Endpoint // nil: none
	notifier notifier        // the endpoint, if it is one
	watching sync.WaitGroup
	over     chan struct{} // closed when no turn follows

	mu          sync.Mutex
	events      fabric.Events       // GUARDED_BY mu; of the last Poll
	completions []fabric.Completion // GUARDED_BY mu; for the next turn
}

// notifier is an endpoint without a goroutine that waits: it calls f after events.
type notifier interface{ Notify(f func()) }

// UseMemory sets the endpoint of the node. Call it before Run, at most once. The driver owns the endpoint
// from now on: Run closes it.
func (d *Driver) UseMemory(e fabric.Endpoint) {
	d.memory.endpoint = e
	d.memory.notifier, _ = e.(notifier)
}

// watch begins to wait for events. kick causes a turn.
func (m *memory) watch(kick func(mayRun bool)) {
	if m.endpoint == nil {
		return
	}
	m.over = make(chan struct{})
	if m.notifier != nil {
		m.notifier.Notify(func() { kick(true) })
		return
	}
	m.watching.Go(func() {
		for {
			m.endpoint.Wait(look)
			select {
			case <-m.over:
				return
			default:
			}
			m.poll()
			kick(true)
		}
	})
}

// poll takes the events that have arrived. It reports whether there were any.
func (m *memory) poll() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events.Reset()
	m.endpoint.Poll(&m.events)
	m.completions = append(m.completions, m.events.Completions...)
	return m.events.Any()
}

// take moves the completions into the input of a turn.
func (m *memory) take(in *turn.Input) {
	if m.endpoint == nil {
		return
	}
	if m.notifier != nil {
		m.poll()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	in.Completions = append(in.Completions, m.completions...)
	clear(m.completions)
	m.completions = m.completions[:0]
}

// apply changes rights and begins operations, as the output of a turn demands. The caller has made the
// records of the turn durable. The rights change first. more reports that there are events for another turn,
// because the operations of the node on its own memory have ended already.
func (m *memory) apply(out *turn.Output) (more bool, err error) {
	if len(out.Rights) == 0 && len(out.Ops) == 0 {
		return false, nil
	}
	if m.endpoint == nil {
		return false, errNoMemory
	}
	for _, right := range out.Rights {
		change := m.endpoint.Grant
		if right.Revoke {
			change = m.endpoint.Revoke
		}
		if err := change(right.Region, right.Peer, right.Rights); err != nil {
			return false, fmt.Errorf("rights to one-sided memory: %w", err)
		}
	}
	if err := m.endpoint.Post(out.Ops...); err != nil {
		return false, fmt.Errorf("operations on one-sided memory: %w", err)
	}
	return m.notifier != nil && m.poll(), nil
}

// close ends the memory after the last turn. From then on, operations of peers on it fail.
func (m *memory) close() error {
	if m.endpoint == nil {
		return nil
	}
	close(m.over)
	err := m.endpoint.Close()
	m.watching.Wait()
	return err
}
