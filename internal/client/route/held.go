package route

import (
	"maps"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// Hold adds one hold of ino, until Release, and reports whether it is the first. The caller must read the
// inode afterwards: see "Why C5 holds". It returns ENFILE if too many inodes are held, and ESTALE if the
// cluster does not have the partition.
func (r *Router) Hold(ino posix.Ino) (first bool, err error) {
	p, err := r.home(ino)
	if err != nil {
		return false, err
	}
	before, err := p.hold(ino)
	return before == 0, err
}

// Release removes one hold.
func (r *Router) Release(ino posix.Ino) {
	if p, err := r.home(ino); err == nil {
		p.release(ino)
	}
}

// IsHeld reports whether an inode is held.
func (r *Router) IsHeld(ino posix.Ino) bool {
	p, err := r.home(ino)
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[ino] > 0
}

// Renewals has the number of renewals of the client's sessions so far, by partition.
type Renewals []uint64

// Renewals returns the number of renewals of the session in each partition.
func (r *Router) Renewals() Renewals {
	all := make(Renewals, len(r.partitions.All()))
	for i, p := range r.partitions.All() {
		all[i] = p.renewed()
	}
	return all
}

// HeldSince reports whether every renewal since then has named ino, which must be held: the client has a
// session at the home of ino, and has sent no renewal since.
func (r *Router) HeldSince(then Renewals, ino posix.Ino) bool {
	p, err := r.home(ino)
	return err == nil && p.session() != nil && int(p.id) < len(then) && p.renewed() == then[p.id]
}

// renewed returns the number of calls of heldForRenewal.
func (p *partition) renewed() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewals
}

// hold adds one hold of ino, and returns the number of holds before. It returns ENFILE if more inodes are
// held than a renewal can name, or than the partition accepts.
func (p *partition) hold(ino posix.Ino) (before int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = p.held[ino]
	if before == 0 && (p.full || len(p.held) >= ask.MaxHeld) {
		return 0, posix.ENFILE
	}
	p.held[ino] = before + 1
	return before, nil
}

// release removes one hold.
func (p *partition) release(ino posix.Ino) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[ino]--; p.held[ino] <= 0 {
		delete(p.held, ino)
	}
}

// heldForRenewal returns the held inodes for a renewal, which it counts.
func (p *partition) heldForRenewal() []posix.Ino {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewals++
	return slices.AppendSeq(make([]posix.Ino, 0, len(p.held)), maps.Keys(p.held))
}

// heldNow returns the held inodes.
func (p *partition) heldNow() []posix.Ino {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.held))
}

// setFull records whether the partition has refused to hold all held inodes.
func (p *partition) setFull(full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full = full
}

func (p *partition) holdsAny() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held) > 0
}
