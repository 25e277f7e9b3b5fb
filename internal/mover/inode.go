package mover

import (
	"context"
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/posix"
)

// maxPostponed bounds the number of inodes that one walk postpones to the next because of errors: more errors
// have a common cause.
const maxPostponed = 16

// maxMoves bounds the number of moves of one file for one task. A file with names in two subtrees may have
// two tasks with different targets: after maxMoves moves it stays, or both tasks would never end.
const maxMoves = 3

// errPulled is the error of a file that another task repeatedly moves elsewhere.
var errPulled = errors.New("it also has a name in a subtree that moves elsewhere")

// settle moves one inode to target, if it is not there. It records problems of this inode alone and returns
// no error for them.
func (w *work) settle(ctx context.Context, ino posix.Ino, target uint16) error {
	err := w.move(ctx, ino, target)
	switch {
	case err == nil || isGone(err):
		return nil
	case ctx.Err() != nil:
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !errors.Is(err, errPulled) && !errors.Is(err, posix.E2BIG) && !errors.Is(err, posix.EFBIG):
		w.postponed = append(w.postponed, fmt.Errorf("inode %d: %w", ino, err))
		if len(w.postponed) > maxPostponed {
			return errors.Join(w.postponed...)
		}
	case !w.stuck[ino]:
		w.stuck[ino] = true
		w.mover.cfg.Logger.Warn("mover: an inode stays where it is", "inode", ino, "target", target, "reason", err)
	}
	return nil
}

// move moves one inode, if it is not there.
func (w *work) move(ctx context.Context, ino posix.Ino, target uint16) error {
	c := w.mover.cfg.Client
	attr, at, err := c.Where(ctx, ino)
	if err != nil || at == target {
		return err
	}
	if w.stays(ino) {
		return errPulled
	}
	if err := w.mover.pace.wait(ctx); err != nil {
		return err
	}
	if attr.Mode.IsRegular() && attr.Bytes > 0 {
		if err := w.copy(ctx, ino, target); err != nil {
			return err
		}
	}
	if _, err := c.Move(ctx, ino, target); err != nil {
		return err
	}
	w.moved.Add(1)
	if !attr.Mode.IsDir() && attr.Nlink > 1 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.moves[ino]++
	}
	return nil
}

// stays reports whether an inode is not tried any more: it cannot move, or it has several names and was moved
// maxMoves times.
func (w *work) stays(ino posix.Ino) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stuck[ino] || w.moves[ino] >= maxMoves
}

// copy copies the blocks of a file, at most maxCopying files at a time.
func (w *work) copy(ctx context.Context, ino posix.Ino, target uint16) error {
	select {
	case w.mover.copying <- struct{}{}:
		defer func() { <-w.mover.copying }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return w.mover.cfg.Client.CopyBlocks(ctx, ino, target)
}
