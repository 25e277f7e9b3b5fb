package delegate

import (
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
)

// Restore returns the log of a process that has died, with its operations from number first on that are not
// known to be acknowledged. The log sends them, and answers no query, because its copy is empty. The
// partition executes them under the grants of the dead process; it needs no copy for that. Once they are
// acknowledged (Newest), the caller asks replicas, and begins another log, which ends the grants of this one.
func Restore(cfg Config, first uint64, ops []delegation.Op) (*Log, error) {
	record := cfg.Record
	cfg.Record = nil // the operations are recorded already
	l, err := New(cfg)
	if err != nil {
		return nil, err
	}
	l.first, l.restored = first, true
	for _, op := range ops {
		l.append(op, &meta.Result{})
	}
	l.cfg.Record = record
	return l, nil
}
