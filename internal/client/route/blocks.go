package route

import (
	"context"

	"github.com/globalfs/globalfs/internal/posix"
)

// BlockIDs are ids for the blocks of one write. They were never used before and cannot be predicted.
type BlockIDs struct {
	First   posix.BlockID // the others follow it
	session *session
}

// NumberBlocks returns ids for count blocks of a write to a file in a partition, under the session there. It
// opens a session if there is none. The caller calls Decided.
func (r *Router) NumberBlocks(ctx context.Context, partition uint16, count int) (*BlockIDs, error) {
	p, err := r.partition(partition)
	if err != nil {
		return nil, err
	}
	ctx, cancel := r.Operation(ctx)
	defer cancel()
	s, err := p.open(ctx)
	if err != nil {
		return nil, r.Outcome(err)
	}
	return &BlockIDs{First: posix.MakeBlockID(partition, s.id, s.numberBlocks(count)), session: s}, nil
}

// Good reports whether a write to a partition may name the blocks: they belong to the client's session there.
func (b *BlockIDs) Good(r *Router, partition uint16) bool {
	p, err := r.partition(partition)
	return err == nil && b.First.Partition() == partition && p.session() == b.session
}

// Decided declares that no caller waits any more for the write that names the blocks. Its outcome need not be
// known: after a renewal with the new horizon the write has no effect.
func (b *BlockIDs) Decided() { b.session.decided(b.First.Counter()) }

// KeepBlock declares that another write names an undecided block: it stays undecided until DropBlock.
func (r *Router) KeepBlock(id posix.BlockID) {
	if s := r.sessionOf(id); s != nil {
		s.keep(id.Counter())
	}
}

// DropBlock declares that no caller waits any more for the write of a KeepBlock.
func (r *Router) DropBlock(id posix.BlockID) {
	if s := r.sessionOf(id); s != nil {
		s.decided(id.Counter())
	}
}

// sessionOf returns the session that has made a block, if the client still has it.
func (r *Router) sessionOf(id posix.BlockID) *session {
	p, err := r.partition(id.Partition())
	if err != nil {
		return nil
	}
	if s := p.session(); s != nil && s.id == id.Session() {
		return s
	}
	return nil
}
