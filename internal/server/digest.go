package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/digest"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// After its start a replica reads its whole store once, in the background, and compares the entries with the
// digest that the store holds. Until then it reports no digests, because they may be wrong.
const (
	verifyPiece = 4096 // number of entries that are read before a rest
	verifyRest  = 10 * time.Millisecond
)

// verifyDigest reads the store of a replica and passes the digest of the entries to the replica.
func (s *Server) verifyDigest(ctx context.Context, h *hosted) {
	var view *kv.View
	var claimed digest.Sum
	var err error
	// If ctx ends, the driver ends, too. WithoutCancel ensures that the view is closed.
	stopped := h.driver.Between(context.WithoutCancel(ctx), func() {
		claimed = h.keys.Digest()
		view, err = h.keys.View()
	})
	if view == nil {
		if err != nil && stopped == nil {
			s.cfg.Logger.Warn("the store of a replica cannot be read: its digest is not compared with others",
				"server", s.cfg.Name, "partition", h.partition, "error", err)
		}
		return
	}
	read := replica.SumStore(&slowScanner{ctx: ctx, scanner: view})
	err = view.Err()
	view.Close()
	if err != nil || ctx.Err() != nil {
		return // if the replica needs the unreadable part, it fails
	}
	if read != claimed {
		s.cfg.Logger.Error("the store of a replica is not what the replica has written: it was changed by another process, damaged, "+
			"or written by a version of globalfs that keeps no digest; it is compared with the other replicas now",
			"server", s.cfg.Name, "partition", h.partition, "process", h.process, "digest", read, "written", claimed)
	}
	_ = h.driver.Between(ctx, func() { h.replica.VerifyDigest(read, claimed) }) // fails only if the driver ends
}

// slowScanner scans a store with rests, until ctx ends.
type slowScanner struct {
	ctx     context.Context
	scanner meta.Scanner
}

// Scan implements meta.Scanner.
func (s *slowScanner) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		n := 0
		for key, value := range s.scanner.Scan(from, to) {
			if n++; n%verifyPiece == 0 && pause.For(s.ctx, verifyRest) != nil {
				return
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// errDiverged stops a replica with another state than the majority of its partition, so that another process
// replaces it.
var errDiverged = errors.New("the replica has another state than the majority of its partition")

// Diverged stops a replica that has another state than the majority of its partition, and treats it as
// damaged. reason describes the difference.
func (s *Server) Diverged(partition uint16, process multicast.ProcessID, reason string) {
	r := s.residence(partition)
	if r == nil {
		return
	}
	if h := r.hosted.Load(); h.process == process {
		select {
		case h.odd <- fmt.Errorf("%w: %s", errDiverged, reason):
		default: // an earlier call has stopped it
		}
	}
}

// ReplicaDigests are the newest digests of a replica on this server.
type ReplicaDigests struct {
	Partition uint16
	Process   multicast.ProcessID
	Taken     []replica.Digest
}

// Digests returns the newest digests of each running replica on this server, by partition.
func (s *Server) Digests(ctx context.Context) (all []ReplicaDigests) {
	var asking sync.WaitGroup
	var mu sync.Mutex
	for _, r := range s.residences() {
		asking.Go(func() {
			h := r.hosted.Load()
			taken := make(chan []replica.Digest, 1)
			if h.driver.Between(ctx, func() { taken <- h.replica.Digests() }) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, ReplicaDigests{Partition: h.partition, Process: h.process, Taken: <-taken})
		})
	}
	asking.Wait()
	slices.SortFunc(all, func(a, b ReplicaDigests) int { return int(a.Partition) - int(b.Partition) })
	return all
}
