package route

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
)

// maxLocations bounds the number of inodes with a remembered partition.
const maxLocations = 1 << 16

// hints are the partitions of inodes that are or were away from their home. Each hint may be out of date: the
// partitions then redirect the command.
type hints struct {
	*recent.Map[posix.Ino, uint16]
}

func newHints() hints { return hints{recent.New[posix.Ino, uint16](maxLocations)} }

// Learn remembers that an inode is in a partition.
func (r *Router) Learn(ino posix.Ino, partition uint16) {
	// For an inode at its home a hint is needed only to replace a wrong one.
	if _, known := r.hints.Get(ino); known || partition != ino.Partition() {
		r.hints.Put(ino, partition)
	}
}

// Suggest is like Learn, for indirect information, which does not replace a known hint.
func (r *Router) Suggest(ino posix.Ino, partition uint16) {
	if _, known := r.hints.Get(ino); !known {
		r.Learn(ino, partition)
	}
}

// At returns the partition of an inode, as far as the client knows. It returns ESTALE if the cluster does not
// have that partition.
func (r *Router) At(ino posix.Ino) (uint16, error) {
	id, known := r.hints.Get(ino)
	if !known {
		id = ino.Partition()
	}
	_, err := r.partition(id)
	return id, err
}

// partition returns a partition by its number. It returns ESTALE if the cluster does not have it.
func (r *Router) partition(id uint16) (*partition, error) {
	if int(id) < len(r.partitions.All()) {
		return r.partitions.All()[id], nil
	}
	return nil, posix.ESTALE
}

// home returns the home of an inode, which knows the sessions that hold the inode.
func (r *Router) home(ino posix.Ino) (*partition, error) { return r.partition(ino.Partition()) }

// MaxGone bounds the number of repeated searches for an inode that was not in its expected partition, because
// it is being moved.
const MaxGone = 5

// Pauses of a Backoff. The actual pause is random, between half of the value and the value.
const (
	firstRetry = 10 * time.Millisecond
	maxRetry   = time.Second
)

// Backoff paces the attempts of a command whose inode another command is changing. The zero value is ready
// for use.
type Backoff struct {
	wait time.Duration // the last pause
}

// Rest pauses, each time longer, at most for maxRetry. It returns the error of ctx if ctx ends before.
func (b *Backoff) Rest(ctx context.Context) error {
	b.wait = min(max(2*b.wait, firstRetry), maxRetry)
	return pause.Between(ctx, b.wait/2, b.wait)
}

// search tries a command at the partition of a target. If the target is an inode, it follows redirections
// until it has found the partition of the inode.
func (r *Router) search(ctx context.Context, to Target, try func(p *partition) (Answer, error)) (Answer, error) {
	if to.ino == 0 {
		p, err := r.partition(to.partition)
		if err != nil {
			return Answer{Partition: to.partition}, err
		}
		for pace := (Backoff{}); ; {
			a, err := try(p)
			if !errors.Is(err, posix.EHELD) || !to.fresh {
				return a, err
			}
			if err := pace.Rest(ctx); err != nil { // a server of an earlier version: another client holds it, and is asked to return it
				return a, err
			}
		}
	}
	at, err := r.At(to.ino)
	if err != nil && !r.learn(ctx, at) {
		return Answer{Partition: at}, err
	}
	s := search{router: r, ino: to.ino, p: r.partitions.All()[at]}
	for {
		a, err := try(s.p)
		if again, err := s.goesOn(ctx, &a, err); !again {
			return a, err
		}
	}
}

// search is the search of one command for the partition of an inode.
type search struct {
	router *Router
	ino    posix.Ino
	p      *partition // the partition to ask next
	misses int        // number of partitions that did not have the inode
	pace   Backoff
}

// goesOn evaluates the answer of s.p. It returns true if the command must be tried again at the new s.p.
// Otherwise the error is that of the command.
func (s *search) goesOn(ctx context.Context, a *Answer, err error) (bool, error) {
	switch {
	case err == nil:
		s.router.Learn(s.ino, s.p.id)
		return false, nil
	case err == posix.ESTALE && s.p.id != s.ino.Partition() && s.misses < MaxGone:
		s.misses++
		return s.turn(s.ino.Partition())
	case err == posix.EREMOTE && a.Attr.Ino == s.ino && a.Number != uint64(s.p.id):
		if s.misses > 1 {
			if err := s.pace.Rest(ctx); err != nil {
				return false, err
			}
		}
		return s.turn(uint16(a.Number))
	case err == posix.EREMOTE || err == posix.EHELD: // a command of several partitions is changing the inode
		err = s.pace.Rest(ctx)
		return err == nil, err
	}
	return false, err
}

// turn sets the partition to ask next.
func (s *search) turn(to uint16) (again bool, err error) {
	s.router.Learn(s.ino, to)
	s.p, err = s.router.partition(to)
	return err == nil, err
}
