package delegate

import (
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Withhold keeps an operation that is in no batch yet, and all behind it, out of batches: its block is not
// stored (L7).
func (l *Log) Withhold(number uint64) {
	if p := l.pending(number); p != nil {
		p.withheld = true
	}
}

// Stored notes that the block of an operation is stored.
func (l *Log) Stored(number uint64) {
	if p := l.pending(number); p != nil {
		p.withheld = false
	}
}

// Void makes a withheld write of a block that cannot be stored a write of nothing. It returns the operation
// as it was, and the directories to return, because their copy has the content; false: it is not withheld.
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

// pending returns an operation that is not acknowledged; nil: there is none of the number.
func (l *Log) pending(number uint64) *pending {
	if number < l.first || number > l.Last() {
		return nil
	}
	return &l.ops[number-l.first]
}
