package delegate

import (
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
)

// Restore makes a log of a process that has died, with its operations from number first on that are not known
// to be acknowledged. The log sends them, and answers nothing: its copy is empty. The partition executes them
// under the grants of the dead process, and needs no copy, also of directories that existed before their
// grants. So the caller asks a replica once they are acknowledged (Newest), and then begins another log,
// which ends the grants of this one.
func Restore(cfg Config, first uint64, ops []delegation.Op) (*Log, error) {
	record := cfg.Record
	cfg.Record = nil // they are recorded
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
