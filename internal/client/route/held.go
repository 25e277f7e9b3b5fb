package route

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// Hold counts ino as held once more, until Release, and reports whether it was not held before. It does not
// look at the inode: see "Why C5 holds". ENFILE if too many are held; ESTALE if the cluster has no such
// partition.
func (r *Router) Hold(ino posix.Ino) (first bool, err error) {
	p, err := r.home(ino)
	if err != nil {
		return false, err
	}
	before, err := p.hold(ino)
	return before == 0, err
}

// Release undoes one Hold.
func (r *Router) Release(ino posix.Ino) {
	if p, err := r.home(ino); err == nil {
		p.release(ino)
	}
}

// Renewals counts, for each partition, the renewals of the client's sessions so far.
type Renewals []uint64

// Renewals returns how many renewals were sent.
func (r *Router) Renewals() Renewals {
	all := make(Renewals, len(r.partitions))
	for i, p := range r.partitions {
		all[i] = p.renewed()
	}
	return all
}

// HeldSince reports whether every renewal since then names an inode that is held now: the client has a
// session at the inode's home, and none was sent since.
func (r *Router) HeldSince(then Renewals, ino posix.Ino) bool {
	p, err := r.home(ino)
	return err == nil && p.session() != nil && p.renewed() == then[p.id]
}

// renewed counts the calls of heldForRenewal.
func (p *partition) renewed() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewals
}

// hold counts ino as held once more, and returns how often it was held before. ENFILE if more are held than a
// renewal can name, or the partition accepts.
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

// release undoes one hold.
func (p *partition) release(ino posix.Ino) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[ino]--; p.held[ino] <= 0 {
		delete(p.held, ino)
	}
}

// heldForRenewal returns the held inodes, and counts the renewal.
func (p *partition) heldForRenewal() []posix.Ino {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewals++
	held := make([]posix.Ino, 0, len(p.held))
	for ino := range p.held {
		held = append(held, ino)
	}
	return held
}

// setFull notes whether the partition refuses to hold what is held.
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
