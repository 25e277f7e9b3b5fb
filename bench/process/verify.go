package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/pkg/multicast"
)

const (
	// drainFor is the time limit of the last messages.
	drainFor   = 60 * time.Second
	drainEvery = 50 * time.Millisecond
)

// drain stops the clients and waits until all running replicas have delivered everything. Messages that a
// client had outstanding when its process was killed count only if they were delivered.
func (k *cluster) drain(ctx context.Context, but multicast.ProcessID) error {
	o := order{command: command{Load: &load{}}, Stop: true}
	for deadline := time.Now().Add(drainFor); ; {
		if err := k.each(ctx, o, but); err != nil {
			return err
		}
		late := k.late(but)
		if late == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not drained after %v: %w", drainFor, late)
		}
		if err := pause.For(ctx, drainEvery); err != nil {
			return err
		}
	}
}

// late reports messages that are still under way, or nil.
func (k *cluster) late(but multicast.ProcessID) error {
	for _, g := range k.groups {
		first := uint64(0)
		for _, p := range g.Members {
			if p == but {
				continue
			}
			s := &k.children[p].last
			if s.Completed < s.Submitted {
				return fmt.Errorf("the client of replica %d misses %d messages", p, s.Submitted-s.Completed)
			}
			if first == 0 {
				first = s.Count
			} else if s.Count != first {
				return fmt.Errorf("replica %d of group %d has delivered %d messages, another one %d", p, g.ID, s.Count, first)
			}
		}
	}
	return nil
}

// check compares all replicas after drain.
func (k *cluster) check() error {
	var errs []error
	for _, g := range k.groups {
		first := &k.children[g.Members[0]].last
		for _, p := range g.Members {
			s := &k.children[p].last
			for _, v := range s.Violations {
				errs = append(errs, fmt.Errorf("replica %d: %s", p, v))
			}
			if s.Digest != first.Digest || s.Count != first.Count {
				errs = append(errs, fmt.Errorf("replica %d has delivered other messages, or in another order, than replica %d", p, g.Members[0]))
			}
			if got := first.Senders[p]; got < s.Completed {
				errs = append(errs, fmt.Errorf("%d messages of replica %d were lost: %d of %d are there", s.Completed-got, p, got, s.Completed))
			}
		}
	}
	return errors.Join(errs...)
}
