package fsck

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/topology"
)

// Source is a running cluster, as a client sees it.
type Source interface {
	// Scan returns a page of the keys of a partition behind after, and the part of the order that the replica
	// has executed; no pairs at the end.
	Scan(ctx context.Context, partition uint16, after []byte) ([]meta.Pair, ask.Seen, error)
	// HasBlock reports whether a block of a partition can be read.
	HasBlock(ctx context.Context, partition uint16, id posix.BlockID) (bool, error)
}

// Options of a check.
type Options struct {
	Partitions int // of the cluster; Offline knows by itself
	// Blocks is the maximal number of blocks to check in each partition, spread evenly. 0: none.
	Blocks   int
	Progress *progress.Meter // nil: the progress is not shown
	// Objects opens the regions' stores in object storage for Offline, if the blocks are there; end closes
	// them. Nil: those blocks are not checked.
	Objects func(ctx context.Context, plan *topology.Cluster) (regions map[topology.Region]block.Store, end func() error, err error)
}

// AllBlocks means all blocks.
const AllBlocks = int(^uint(0) >> 1)

// The checks of a live cluster.
const (
	maxLooks  = 4 // at most; two with a common finding are enough
	maxCopies = 3 // tries for a copy of a partition without concurrent changes
	settle    = time.Second
)

// Online checks a running cluster. It returns an error if a request fails; then there is no Report.
func Online(ctx context.Context, source Source, o Options) (Report, error) {
	found, err := look(ctx, source, &o)
	if err != nil {
		return Report{}, err
	}
	for n := 1; n < maxLooks && len(found.Problems) > 0; n++ {
		o.Progress.Begin("%d findings: looking again whether they stay", len(found.Problems))
		if err := pause.For(ctx, settle); err != nil {
			return Report{}, err
		}
		again, err := look(ctx, source, &o)
		if err != nil {
			return Report{}, err
		}
		if stayed := both(found.Problems, again.Problems); len(stayed) > 0 || n == maxLooks-1 {
			again.Problems = stayed
			return again, nil
		}
		found = again
	}
	return found, nil
}

// both returns the problems of after that are also in before.
func both(before, after []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(after), func(p Problem) bool {
		return !slices.ContainsFunc(before, func(q Problem) bool { return p.Where == q.Where && p.What == q.What })
	})
}

// look checks the whole cluster once.
func look(ctx context.Context, source Source, o *Options) (Report, error) {
	r := Report{Problems: []Problem{}}
	var stores []meta.Reader
	o.Progress.Count(uint64(o.Partitions), "partitions", "fetching and checking the metadata")
	for id := range uint16(o.Partitions) {
		keys, torn, err := fetch(ctx, source, id)
		if err != nil {
			return r, fmt.Errorf("partition %d: %w", id, err)
		}
		if torn {
			r.Notes = append(r.Notes, fmt.Sprintf("partition %d was changed all the time while it was read", id))
		}
		stores = append(stores, keys)
		r.Partitions = append(r.Partitions, count(id, keys, 1))
		r.add(partitionName(id), meta.Check(keys)...)
		o.Progress.Add(1)
	}
	o.Progress.Begin("checking the references between partitions")
	r.across(stores)
	o.countBlocks(r.Partitions)
	for id, keys := range stores {
		has := func(ctx context.Context, block posix.BlockID) (string, error) {
			found, err := source.HasBlock(ctx, uint16(id), block)
			if err != nil || found {
				return "", err
			}
			return "no region has a good copy", nil
		}
		if err := r.blocks(ctx, o, &r.Partitions[id], keys, has); err != nil {
			return r, err
		}
	}
	return r, nil
}

// fetch copies the keys of a partition. torn means that commands were executed during each attempt.
func fetch(ctx context.Context, source Source, partition uint16) (keys *copied, torn bool, err error) {
	for range maxCopies {
		if keys, torn, err = fetchOnce(ctx, source, partition); err != nil || !torn {
			break
		}
	}
	return keys, torn, err
}

func fetchOnce(ctx context.Context, source Source, partition uint16) (keys *copied, torn bool, err error) {
	keys = new(copied)
	var first ask.Seen
	var after []byte
	for page := 0; ; page++ {
		pairs, seen, err := source.Scan(ctx, partition, after)
		if err != nil {
			return nil, false, err
		}
		if page == 0 {
			first = seen
		}
		torn = torn || seen.Count != first.Count
		if len(pairs) == 0 {
			return keys, torn, nil
		}
		if err := keys.add(pairs); err != nil {
			return nil, false, err
		}
		after = pairs[len(pairs)-1].Key
	}
}
