package disk

import (
	"context"
	"errors"

	"github.com/globalfs/globalfs/internal/block"
)

// Durable implements region.Disk.
func (s *Store) Durable() bool { return !s.config.NoSync }

// Sync implements block.Syncer: with Config.NoSync it makes all blocks and deletes so far durable. Without
// NoSync they are durable already. Calls that wait for each other share one sync.
func (s *Store) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.committing.Lock()
	defer s.committing.Unlock()
	switch {
	case s.closed:
		return block.ErrClosed
	case !s.config.NoSync:
		return nil
	}
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.appender.syncAll(); err != nil || !s.unsynced {
		return err
	}
	if err := newEdit(s.index).commit(s.appender.end, true); err != nil {
		var down *indexDown
		if !errors.As(err, &down) {
			s.indexFailed = err
		}
		return err
	}
	s.unsynced = false
	return nil
}
