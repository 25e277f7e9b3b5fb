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

// memory is the one-sided memory of a node. A goroutine waits for completions and for writes of peers. Each
// event causes a turn. The turn takes the completions; the node reads the memory itself to find the writes.
type memory struct {
	endpoint fabric.Endpoint // nil: none
	watching sync.WaitGroup
	over     chan struct{} // closed when no turn follows

	mu          sync.Mutex
	completions []fabric.Completion // GUARDED_BY mu; for the next turn
}

// UseMemory sets the endpoint of the node. Call it before Run, at most once. The driver owns the endpoint
// from now on: Run closes it.
func (d *Driver) UseMemory(e fabric.Endpoint) { d.memory.endpoint = e }

// watch begins to wait for events. kick causes a turn.
func (m *memory) watch(kick func(mayRun bool)) {
	if m.endpoint == nil {
		return
	}
	m.over = make(chan struct{})
	m.watching.Go(func() {
		var events fabric.Events
		for {
			m.endpoint.Wait(look)
			select {
			case <-m.over:
				return
			default:
			}
			events.Reset()
			m.endpoint.Poll(&events)
			m.mu.Lock()
			m.completions = append(m.completions, events.Completions...)
			m.mu.Unlock()
			kick(true)
		}
	})
}

// take moves the completions into the input of a turn.
func (m *memory) take(in *turn.Input) {
	if m.endpoint == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	in.Completions = append(in.Completions, m.completions...)
	clear(m.completions)
	m.completions = m.completions[:0]
}

// apply changes rights and begins operations, as the output of a turn demands. The caller has made the
// records of the turn durable. The rights change first.
func (m *memory) apply(out *turn.Output) error {
	if len(out.Rights) == 0 && len(out.Ops) == 0 {
		return nil
	}
	if m.endpoint == nil {
		return errNoMemory
	}
	for _, right := range out.Rights {
		change := m.endpoint.Grant
		if right.Revoke {
			change = m.endpoint.Revoke
		}
		if err := change(right.Region, right.Peer, right.Rights); err != nil {
			return fmt.Errorf("rights to one-sided memory: %w", err)
		}
	}
	if err := m.endpoint.Post(out.Ops...); err != nil {
		return fmt.Errorf("operations on one-sided memory: %w", err)
	}
	return nil
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
