package backup

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
)

// Cluster is the running cluster that is saved.
type Cluster interface {
	// Plan returns the cluster as it is known now.
	Plan() *topology.Cluster
	Name() string
	// Check fails if a server cannot make backups, or does not answer.
	Check(ctx context.Context) error
	// Mark starts a backup of a partition, extends the hold of its blocks, or lets the blocks go.
	Mark(ctx context.Context, partition uint16, number uint64, release bool) (newest uint64, err error)
	// State returns the saved state of a partition, as meta.Snapshot writes it, from one of its replicas.
	State(ctx context.Context, partition uint16, number uint64, into io.Writer) error
	// Block returns the content of a block that a partition holds. The error is ErrLost if no copy is left
	// and the backup is to be made without it.
	Block(ctx context.Context, partition uint16, id posix.BlockID) ([]byte, error)
	// PutBlock stores a block for a partition.
	PutBlock(ctx context.Context, partition uint16, id posix.BlockID, data []byte) error
}

// ErrLost is the error of Cluster.Block for a block without a copy. Only a cluster that is recovered from the
// directories of stopped servers has such blocks.
var ErrLost = errors.New("no copy of the block is left")

// parallel bounds the blocks that are copied at a time.
const parallel = 16

// parallelStates bounds the states that are read at a time.
const parallelStates = 8

// holdEvery is the time between two holds of the blocks.
const holdEvery = replica.HoldBlocks / 4

// Options of Create.
type Options struct {
	Build    string          // version of the program
	Scratch  string          // directory for temporary files
	Progress *progress.Meter // nil: the progress is not shown
}

// Create makes a backup of a running cluster.
func (r *Repository) Create(ctx context.Context, c Cluster, o Options) (_ *Manifest, err error) {
	if err := c.Check(ctx); err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(o.Scratch, "globalfs-backup-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	now := time.Now().UTC()
	m := &Manifest{
		Format: format, ID: now.Format("20060102T150405.000Z"), Number: uint64(now.UnixMilli()), Time: now,
		Cluster: c.Name(), Identity: string(c.Plan().Identity()), Build: o.Build,
	}
	o.Progress.Begin("waiting until all partitions have saved their states")
	if err := markAll(ctx, c, m.Number, false); err != nil {
		return nil, err
	}
	held, release := hold(ctx, c, m.Number)
	defer release()
	stores, closeAll, err := r.readStates(held, c, m, &o, scratch)
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return nil, err
	}
	for p, keys := range stores {
		added, err := r.save(held, keys, &m.Partitions[p])
		if err != nil {
			return nil, err
		}
		m.NewBytes += added
		m.Bytes += m.Partitions[p].Bytes
	}
	// A block that is on its way between partitions is counted where the restored state holds it.
	if _, err := refound(m.ID, stores); err != nil {
		return nil, err
	}
	o.Progress.Count(countBlocks(stores), "blocks", "copying the blocks that the repository lacks")
	for p, keys := range stores {
		if err := r.saveBlocks(held, c, uint16(p), keys, m, &o); err != nil {
			return nil, err
		}
	}
	if err := held.Err(); err != nil {
		return nil, context.Cause(held)
	}
	return m, r.putManifest(ctx, m)
}

// markAll asks all partitions for the marker of a backup.
func markAll(ctx context.Context, c Cluster, number uint64, release bool) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range c.Plan().Partitions {
		g.Go(func() error {
			newest, err := c.Mark(ctx, p.ID, number, release)
			if err == nil && newest > number {
				err = fmt.Errorf("partition %d knows backup %d already: another backup was started, or the clock of this machine is behind", p.ID, newest)
			}
			return err
		})
	}
	return g.Wait()
}

// hold keeps the blocks of a backup from being collected until release is called. The context ends if a
// partition cannot be informed in time.
func hold(ctx context.Context, c Cluster, number uint64) (held context.Context, release func()) {
	held, give := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(holdEvery)
		defer ticker.Stop()
		for last := time.Now(); ; {
			select {
			case <-held.Done():
				return
			case <-ticker.C:
			}
			if err := markAll(held, c, number, false); err == nil {
				last = time.Now()
			} else if time.Since(last) > replica.HoldBlocks-holdEvery {
				give(fmt.Errorf("the blocks of the backup cannot be held: %w", err))
				return
			}
		}
	}()
	return held, func() {
		give(context.Canceled)
		<-ended
		// A partition that does not answer lets the blocks go by itself.
		letGo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = markAll(letGo, c, number, true)
	}
}

// readStates reads the states of all partitions into stores, and checks that they are a consistent cut.
func (r *Repository) readStates(ctx context.Context, c Cluster, m *Manifest, o *Options, scratch string) (stores []*kv.Store, closeAll func() error, err error) {
	closeAll = func() (err error) {
		for _, s := range stores {
			err = errors.Join(err, s.Close())
		}
		return err
	}
	var keys []meta.Keys
	partitions := c.Plan().Partitions
	for _, p := range partitions {
		store, err := kv.Open(partitionDir(scratch, p.ID), kv.Options{})
		if err != nil {
			return stores, closeAll, err
		}
		stores, keys = append(stores, store), append(keys, store)
		m.Partitions = append(m.Partitions, Partition{ID: p.ID, Path: p.Path})
	}
	// Servers let a state go that nobody reads for some minutes.
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(parallelStates)
	o.Progress.Count(uint64(len(partitions)), "partitions", "reading the states")
	for i, p := range partitions {
		g.Go(func() error {
			defer o.Progress.Add(1)
			if err := readState(reading, c, p.ID, m.Number, stores[i]); err != nil {
				return fmt.Errorf("partition %d: %w", p.ID, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return stores, closeAll, err
	}
	for p := range keys {
		shards, err := meta.StoredShards(keys[p])
		if err != nil || len(shards) > 0 && int(slices.Max(shards)) >= len(keys) {
			return stores, closeAll, errors.Join(err, errors.New("a partition was added to the cluster while the backup was made: repeat it"))
		}
	}
	found, err := cross.Contradictions(keys)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("the saved states are no consistent cut, which is an error of the program: please report it: %q", found)
	}
	return stores, closeAll, err
}

// readState reads the state of a partition into a store.
func readState(ctx context.Context, c Cluster, partition uint16, number uint64, store *kv.Store) error {
	out, in := io.Pipe()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := c.State(ctx, partition, number, in)
		_ = in.CloseWithError(err) // the reader gets err; nil: the end
		return err
	})
	g.Go(func() error {
		n := 0
		err := meta.ReadSnapshot(out, func(key, value []byte) error {
			store.Set(key, value)
			if n++; n%1000 == 0 {
				return store.Commit(false)
			}
			return nil
		})
		err = errors.Join(err, store.Commit(false))
		_ = out.CloseWithError(err) // it does not fail
		return err
	})
	return g.Wait()
}

// refound makes the states of a backup those of the cluster that is restored from it.
func refound(id string, stores []*kv.Store) (done cross.Concluded, err error) {
	keys := make([]replica.Keys, len(stores))
	for i, s := range stores {
		keys[i] = s
	}
	return replica.Refound(keys, crc32.ChecksumIEEE([]byte(id)))
}

// countBlocks returns the number of blocks that states name.
func countBlocks(stores []*kv.Store) (total uint64) {
	for _, keys := range stores {
		for range meta.Held(keys) {
			total++
		}
	}
	return total
}

// saveBlocks counts the blocks that a restored state names, and copies those that the repository lacks.
func (r *Repository) saveBlocks(ctx context.Context, c Cluster, partition uint16, keys *kv.Store, m *Manifest, o *Options) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	var added atomic.Uint64
	var mu sync.Mutex // guards m.Lost
	for id := range meta.Held(keys) {
		if ctx.Err() != nil {
			break
		}
		m.BlockCount++
		g.Go(func() error {
			defer o.Progress.Add(1)
			n, err := r.copyBlock(ctx, c, partition, id)
			added.Add(n)
			if errors.Is(err, ErrLost) {
				mu.Lock()
				defer mu.Unlock()
				m.Lost = append(m.Lost, id.String())
				return nil
			}
			return err
		})
	}
	err := g.Wait()
	m.NewBytes += added.Load()
	return errors.Join(err, keys.Err())
}

// copyBlock copies a block unless the repository has it. One that is damaged there is copied again.
func (r *Repository) copyBlock(ctx context.Context, c Cluster, partition uint16, id posix.BlockID) (added uint64, err error) {
	if has, err := r.hasBlock(ctx, id); has || err != nil {
		return 0, err
	}
	data, err := c.Block(ctx, partition, id)
	if err != nil {
		return 0, fmt.Errorf("block %v of partition %d: %w", id, partition, err)
	}
	return uint64(len(data)), r.putBlock(ctx, id, data)
}
