package delegate

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Ask returns the command that requests an existing directory. ctime is its time of change as far as the
// client knows; 0: unknown. All operations of the log must be acknowledged, including returns of the
// directory after an earlier grant.
func (l *Log) Ask(dir posix.Ino, ctime posix.Time) meta.Command {
	l.asked++
	delete(l.unknown, dir)
	return meta.Command{Op: meta.OpDelegate, Ino: dir, Offset: l.cfg.Number, Length: l.asked, Set: meta.SetCtime, Attr: posix.Attr{Ctime: ctime}}
}

// WasReturned reports whether a directory was recalled after the client requested it, so that the log has its
// return.
func (l *Log) WasReturned(dir posix.Ino) bool { return l.unknown[dir] }

// Adopt records that a directory was granted, with the answers to OpCarry after the grant. After an error the
// client must return the directory.
func (l *Log) Adopt(dir posix.Ino, pages [][]byte) error {
	files, err := meta.Adopt(l.machine, dir, pages)
	if err != nil {
		return err
	}
	if !l.table.Adopt(l.cfg.Session, dir, files) {
		return fmt.Errorf("directory %d: one of its %d files is held with another directory", dir, len(files))
	}
	l.table.Save()
	return nil
}

// Lacks returns the directories that the client must hold in addition to hold all that an update touches. It
// already holds at least one directory that the update touches; nil: there is nothing to request.
func (l *Log) Lacks(c *meta.Command) (dirs []posix.Ino) {
	free := func(dir posix.Ino) bool { return l.table.Holder(dir) == 0 }
	switch c.Op {
	case meta.OpRmdir:
		if child, _ := meta.EntryOf(l.machine, c.Ino, c.Name); !free(c.Ino) && child.IsDir && free(child.Ino) {
			return []posix.Ino{child.Ino}
		}
	case meta.OpRename:
		if free(c.Ino) != free(c.NewParent) {
			if free(c.Ino) {
				return []posix.Ino{c.Ino}
			}
			return []posix.Ino{c.NewParent}
		}
	}
	return nil
}

// IsReturning reports whether the log has a return of a directory that is not acknowledged.
func (l *Log) IsReturning(dir posix.Ino) bool {
	for i := range l.ops {
		if l.ops[i].Return == dir {
			return true
		}
	}
	return false
}
