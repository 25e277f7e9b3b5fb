package delegate

import (
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Withhold keeps an operation that is in no batch yet, and all later ones, out of batches, because its block
// is not stored (L7).
func (l *Log) Withhold(number uint64) {
	if p := l.pending(number); p != nil {
		p.withheld = true
	}
}

// Stored records that the block of an operation is stored.
func (l *Log) Stored(number uint64) {
	if p := l.pending(number); p != nil {
		p.withheld = false
	}
}

// Void turns a withheld write, whose block cannot be stored, into a write of nothing. It returns the original
// operation, and the directories to return because their copy has the content. ok is false if the operation
// is not withheld.
func (l *Log) Void(number uint64) (lost delegation.Op, dirs []posix.Ino, ok bool) {
	p := l.pending(number)
	if p == nil || !p.withheld {
		return lost, nil, false
	}
	lost = p.Op
	p.withheld = false
	p.Command.Data, p.Command.Blocks, p.Command.Length = nil, nil, 0
	return lost, l.table.Holders([]meta.Object{{Ino: p.Command.Ino}}), true
}

// pending returns the operation with a number; nil: it is acknowledged, or does not exist.
func (l *Log) pending(number uint64) *pending {
	if number < l.first || number > l.Last() {
		return nil
	}
	return &l.ops[number-l.first]
}
