package route

import (
	"context"

	"github.com/globalfs/globalfs/internal/posix"
)

// BlockIDs are new ids for the blocks of one write. They cannot be predicted.
type BlockIDs struct {
	First   posix.BlockID // the others are the next numbers
	session *session
}

// NumberBlocks returns ids for count blocks of a write to a file in a partition. They belong to the client's
// session there; NumberBlocks opens a session if there is none. The caller must call Decided.
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

// Good reports whether a write to a partition may name the blocks: they belong to the client's present
// session there.
func (b *BlockIDs) Good(r *Router, partition uint16) bool {
	p, err := r.partition(partition)
	return err == nil && b.First.Partition() == partition && p.session() == b.session
}

// Decided declares that no caller waits any more for the write that names the blocks. The outcome of the
// write may be unknown: after the next renewal, which has the new horizon, it has no effect.
func (b *BlockIDs) Decided() { b.session.decided(b.First.Counter()) }

// KeepBlock declares that a further write names an undecided block, so that the block stays undecided until
// DropBlock.
func (r *Router) KeepBlock(id posix.BlockID) {
	if s := r.sessionOf(id); s != nil {
		s.keep(id.Counter())
	}
}

// DropBlock declares that no caller waits any more for the write of an earlier KeepBlock.
func (r *Router) DropBlock(id posix.BlockID) {
	if s := r.sessionOf(id); s != nil {
		s.decided(id.Counter())
	}
}

// sessionOf returns the session to which a block belongs, if it is a present session of the client.
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
