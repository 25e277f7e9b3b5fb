package block

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// The time for which a put or delete waits for slower regions after a majority has answered, and the time for
// which a region that was too slow or has failed counts as away. No operation waits for a region that is
// away. A block that such a region lacks is put there when a client of the region reads the block.
const (
	straggle = 3 * time.Second
	away     = 10 * time.Second
)

// Nearest is the Store of a partition that several regions replicate. Put writes to all regions that can be
// reached, a majority at least. Get reads from the nearest region that has the block. So a region that is
// down delays only its own clients.
type Nearest struct {
	stores []Store

	mu    sync.Mutex
	until []time.Time // GUARDED_BY mu; a region is away until then
}

// NewNearest makes a store of regional ones, at least one, the nearest first.
func NewNearest(stores ...Store) (*Nearest, error) {
	if len(stores) == 0 {
		return nil, errors.New("nearest blocks: no store: name at least one region")
	}
	return &Nearest{stores: stores, until: make([]time.Time, len(stores))}, nil
}

// Put implements Store. It asks all regions in parallel, and returns when all have answered or it has given
// up the others. If one region refuses the block, for lack of space for example, Put fails with its error.
func (n *Nearest) Put(ctx context.Context, b Block) error {
	if len(n.stores) == 1 {
		return n.stores[0].Put(ctx, b)
	}
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	results := make(chan putResult, len(n.stores))
	for i, s := range n.stores {
		go func() { results <- putResult{i, s.Put(asking, b)} }()
	}
	return n.gather(ctx, b.ID, results, giveUp)
}

type putResult struct {
	region int
	err    error
}

// gather receives all results. It calls giveUp, which ends the remaining operations, when it need not wait
// for them.
func (n *Nearest) gather(ctx context.Context, id ID, results <-chan putResult, giveUp func()) error {
	stored, waited := 0, n.present()
	var failed, refused error // the error of a region that did not answer, and of one that refused the operation
	timer := time.NewTimer(straggle)
	timer.Stop()
	defer timer.Stop()
	for range n.stores {
		var r putResult
		select {
		case r = <-results:
		case <-timer.C:
			giveUp()
			r = <-results
		}
		if ctx.Err() == nil { // otherwise the error does not concern the region
			n.note(r.region, !outOfReach(r.err), waited[r.region])
		}
		delete(waited, r.region)
		switch {
		case r.err == nil:
			stored++
		case outOfReach(r.err):
			failed = r.err
		case refused == nil: // later errors may be the effect of giveUp
			refused = r.err
			clear(waited)
			giveUp()
		}
		switch {
		case stored <= len(n.stores)/2:
		case len(waited) == 0:
			giveUp() // the remaining regions count as away
		case r.err == nil && stored == len(n.stores)/2+1:
			timer.Reset(straggle)
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case refused != nil:
		return refused
	case stored <= len(n.stores)/2:
		return fmt.Errorf("put block %v: stored in %d of %d regions: %w", id, stored, len(n.stores), failed)
	}
	return nil
}

// outOfReach reports whether an error means that a region did not answer in time.
func outOfReach(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// order returns the regions by distance, those that are away last.
func (n *Nearest) order() []int {
	present := n.present()
	order := make([]int, 0, len(n.stores))
	for _, there := range []bool{true, false} {
		for i := range n.stores {
			if present[i] == there {
				order = append(order, i)
			}
		}
	}
	return order
}

// present returns the regions that are not away.
func (n *Nearest) present() map[int]bool {
	now, regions := time.Now(), map[int]bool{}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, until := range n.until {
		if now.After(until) {
			regions[i] = true
		}
	}
	return regions
}

// note records whether a region has answered. A late answer that no operation waited for does not make a
// region away.
func (n *Nearest) note(region int, answered, waited bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case answered:
		n.until[region] = time.Time{}
	case waited:
		n.until[region] = time.Now().Add(away)
	}
}

// Delete implements Store. It deletes in all regions that can be reached, and fails if one cannot be. It does
// not wait for a region that is away, and only briefly for one that is slower than another.
func (n *Nearest) Delete(ctx context.Context, ids []ID) error {
	if len(n.stores) == 1 {
		return n.stores[0].Delete(ctx, ids)
	}
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	late := time.AfterFunc(time.Hour, giveUp)
	defer late.Stop()
	present, errs := n.present(), make([]error, len(n.stores))
	var deleting sync.WaitGroup
	for i, s := range n.stores {
		if !present[i] {
			errs[i] = fmt.Errorf("delete %d blocks: a region is away: %w", len(ids), ErrUnavailable)
			continue
		}
		deleting.Go(func() {
			err := s.Delete(asking, ids)
			switch {
			case err == nil:
				late.Reset(straggle)
			case ctx.Err() == nil && asking.Err() != nil:
				err = fmt.Errorf("delete %d blocks: a region is late: %w: %w", len(ids), ErrUnavailable, err)
			}
			errs[i] = err
		})
	}
	deleting.Wait()
	return errors.Join(errs...)
}

// Get implements Store. ErrNotFound and ErrCorrupt mean that all regions were asked. Get puts the block in
// the nearer regions that lack it or have only bad copies.
func (n *Nearest) Get(ctx context.Context, id ID, into []byte) ([]byte, error) {
	var lost, failed error
	var missed []Store
	for _, i := range n.order() {
		s := n.stores[i]
		data, err := s.Get(ctx, id, into)
		if ctx.Err() == nil {
			n.note(i, !outOfReach(err), true)
		}
		switch {
		case err == nil:
			if len(missed) > 0 {
				b := New(id, data) // the memory of into belongs to the caller
				for _, nearer := range missed {
					_ = nearer.Put(ctx, b) // if this fails, the next reader asks a more distant region
				}
			}
			return data, nil
		case ctx.Err() != nil:
			return nil, err
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNotFound) && lost == nil:
			lost = err
		case !errors.Is(err, ErrNotFound):
			failed = err
		}
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) {
			missed = append(missed, s)
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("get block %v from %d regions: %w: %w", id, len(n.stores), ErrUnavailable, failed)
	}
	return nil, lost
}

// Range implements Store: the blocks of all regions.
func (n *Nearest) Range(ctx context.Context, from, to ID) iter.Seq2[ID, error] {
	all := make([]iter.Seq2[ID, error], len(n.stores))
	for i, s := range n.stores {
		all[i] = s.Range(ctx, from, to)
	}
	return Merge(all)
}
