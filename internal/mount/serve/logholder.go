package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric/ring"
)

// LogHolder is a process that holds the log of a mount (Log). While the mount is served, it does nothing.
// When all processes of the mount have ended, it reads the log. If there are unordered changes, the log
// holder sends them to the servers; then it ends. If there are none, and the process was killed, it returns
// the directories that the process has held: otherwise their partitions would keep the grants until the
// session ends. The log holder has no file of the mount open, and no mount prevents its end.
//
// If the mount has a Holder, which may start another daemon, the Holder keeps the connection to the log
// holder until it gives up. So a log holder and a daemon never send the same changes.
//
// Other processes can wait for the end of all log holders of a mount point (AwaitLogs).
type LogHolder struct {
	Dir    string // the mount point
	Size   int    // of the memory
	Logger *slog.Logger
	// Pending returns the number of changes in the memory that are not ordered, and whether the mount may
	// hold directories.
	Pending func(memory []byte) (changes int, holds bool, err error)
	// Carry orders the changes and returns the directories, in place of the file system with the given state.
	// state is nil if the mount has sent none. Carry calls ordered when the changes are ordered. It returns
	// ErrNotReturned if the changes are ordered, and the directories may not be returned.
	Carry func(ctx context.Context, memory, state []byte, ordered func()) error
}

// ErrNotReturned means that servers are not known to have taken back the directories of a mount.
var ErrNotReturned = errors.New("the directories that the mount has held are not known to be returned: others can change them ten seconds after they ask")

// Run is the main function of the process, which Log has started. The end of ctx ends Run while it orders
// changes.
func (h *LogHolder) Run(ctx context.Context) (err error) {
	l, file, err := inherited()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close(), file.Close()) }()
	status := &statusSocket{now: LogStatus{PID: os.Getpid()}}
	if err := status.listen(h.Dir); err != nil {
		h.Logger.Warn("no later mount of the same place can wait for the log of this one", "error", err)
	}
	defer status.close()
	if err := l.send(wordReady); err != nil {
		return err
	}
	state, killed := l.heed(status)
	memory, err := ring.Open(file, h.Size)
	if err != nil {
		return err
	}
	defer memory.Unmap()
	changes, holds, err := h.Pending(memory)
	switch {
	case err != nil:
		return err
	case changes == 0 && killed && holds && state != nil:
		return h.giveBack(ctx, memory, state)
	case changes == 0:
		return nil
	}
	status.update(func(s *LogStatus) { s.Ends, s.Changes, s.Since = true, changes, time.Now() })
	_ = l.send(wordKept) // fails if the process was killed
	h.Logger.Warn("the process of the mount has ended before all changes that it has answered were ordered: this one orders them",
		"changes", changes, "process", os.Getpid())
	ordered := func() { // a later mount of the same place need not wait for the return of the directories
		status.update(func(s *LogStatus) { s.Ends, s.Changes = false, 0 })
	}
	if err := h.Carry(ctx, memory, state, ordered); errors.Is(err, ErrNotReturned) {
		h.Logger.Warn("log holder", "error", err)
	} else if err != nil {
		return fmt.Errorf("changes that programs have made are lost: %w", err)
	}
	h.Logger.Info("all changes that the mount has answered are ordered", "changes", changes)
	return nil
}

// GiveBackWithin is the time after which the session of a mount has ended, with all its directories.
const GiveBackWithin = time.Minute

// giveBack returns the directories of a mount that was killed and has ordered all changes.
func (h *LogHolder) giveBack(ctx context.Context, memory, state []byte) error {
	ctx, cancel := context.WithTimeout(ctx, GiveBackWithin)
	defer cancel()
	if err := h.Carry(ctx, memory, state, func() {}); err != nil {
		h.Logger.Warn("the process of the mount was killed, and the directories that it has held are not known to be returned: others can change them ten seconds after they ask", "error", err)
		return nil
	}
	h.Logger.Info("the process of the mount was killed: the servers have taken back the directories that it held")
	return nil
}

// heed receives the words of the mount, until no process uses the log any more. It returns the last state,
// and whether the process has ended without a word.
func (l *link) heed(status *statusSocket) (state []byte, killed bool) {
	for {
		word, fds, err := l.receive(0, 1)
		switch {
		case err != nil || word == wordEnded:
			return state, err != nil
		case word == wordEnding:
			status.update(func(s *LogStatus) { s.Ends = true })
		case word == wordState && len(fds) == 1:
			file := os.NewFile(uintptr(fds[0]), "state")
			if packed, err := readState(file); err == nil {
				state = packed
			}
			_ = file.Close()
		}
	}
}
