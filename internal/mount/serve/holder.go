package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

// Holder keeps a mount alive after the death of the process that serves the mount, the daemon. It starts the
// daemon as its child. The holder also has /dev/fuse open, so the kernel does not end the connection, and it
// has the daemon's last state. A new daemon continues from this state; the kernel repeats the requests that
// the dead daemon had read and not answered.
//
// Programs see a pause. The last changes without an answer may be executed twice: mkdir then returns EEXIST,
// and unlink or rename ENOENT, though they were executed, and an append may be in the file twice. A file that
// was opened in the last tenth of a second, and removed, may be gone (ESTALE). Locks hold: the holder knows
// each lock before the program does. Changes that the daemon had executed in its Log are executed once: the
// next daemon knows their requests.
//
// The death of the holder does not end the mount: the daemon continues to serve, but no process starts a
// successor after the daemon's death.
type Holder struct {
	// Command makes the command of a daemon, which calls Held. ExtraFiles and Cancel are the holder's.
	Command func(ctx context.Context) *exec.Cmd
	// Started is called when a daemon was started; nil: no caller needs it.
	Started func()
	Logger  *slog.Logger // nil: slog.Default()
}

// holderVariable is the environment variable with the daemon's descriptor of the connection to its holder.
const holderVariable = "GLOBALFS_HOLDER_FD"

// Words between holder and daemon, beside those of a handover.
const (
	wordNone  = "none"  // to the daemon: there is no mount to continue
	wordMount = "mount" // to the holder, with /dev/fuse
	wordLeft  = "left"  // to the holder: a successor with another holder serves the mount
	// wordMemory goes to the holder, with the memory of a Log. It also goes to the next daemon, with the
	// memory and the connection to the log holder.
	wordMemory = "memory"
	wordLog    = "log" // to the holder, with the connection to the log holder
)

// Bounds of a holder's patience.
const (
	quickDeath   = time.Minute // a daemon that dies earlier counts as failed
	maxQuick     = 5           // maximum number of successive failed daemons
	firstRestart = 100 * time.Millisecond
	maxRestart   = 10 * time.Second
	farewellTime = 30 * time.Second // time limit for the end of a daemon
)

// ErrGivenUp means that daemons have died repeatedly, or that a dead daemon can have no successor. The holder
// has unmounted the mount.
var ErrGivenUp = errors.New("the mount was given up")

// held is the state of a mount at its holder.
type held struct {
	device *os.File // /dev/fuse; nil: the mount does not exist yet, or has ended
	memory *os.File // the file with the state
	// The access to the log holder; nil: there is none. As long as the connection exists, the log holder
	// leaves the log to the next daemon.
	logMemory, logLink *os.File
}

func (h *held) close() {
	for _, f := range []*os.File{h.device, h.memory, h.logMemory, h.logLink} {
		if f != nil {
			_ = f.Close()
		}
	}
	*h = held{}
}

// Run starts a daemon, and another one when it dies, until a daemon exits. Run returns the error of its exit.
// The end of ctx ends the daemon.
func (h *Holder) Run(ctx context.Context) error {
	logger := h.Logger
	if logger == nil {
		logger = slog.Default()
	}
	has := &held{}
	defer has.close()
	quick, wait := 0, firstRestart
	for {
		began := time.Now()
		err := h.daemon(ctx, has)
		switch {
		case err == nil || has.device == nil:
			return err
		case ctx.Err() != nil:
			return has.giveUp(err)
		}
		if quick++; time.Since(began) >= quickDeath {
			quick, wait = 0, firstRestart
		}
		if err := has.hopeless(err, quick); err != nil {
			return err
		}
		logger.Error("the process that serves the mount has died: starting another", "error", err, "in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return has.giveUp(ctx.Err())
		}
		wait = min(2*wait, maxRestart)
	}
}

// hopeless unmounts the mount if another daemon would not help.
func (h *held) hopeless(died error, quick int) error {
	s, err := h.state()
	switch {
	case err != nil:
		return h.giveUp(errors.Join(died, err))
	case !s.Terms.resends(): // programs would wait for ever for the answers to the dead daemon's requests
		return h.giveUp(errors.Join(died, ErrNoResend))
	case quick >= maxQuick:
		return h.giveUp(fmt.Errorf("it died %d times within %v each: %w", quick, quickDeath, died))
	}
	return nil
}

// giveUp unmounts the mount, so that no program hangs.
func (h *held) giveUp(why error) error {
	s, err := h.state()
	if err == nil {
		err = mountpoint.DetachBusy(s.Dir)
	}
	return errors.Join(ErrGivenUp, why, err)
}

func (h *held) state() (*State, error) {
	if h.memory == nil {
		return nil, errors.New("the daemon has sent no state")
	}
	packed, err := readState(h.memory)
	if err != nil {
		return nil, err
	}
	return DecodeState(packed)
}

// daemon runs one daemon to its end.
func (h *Holder) daemon(ctx context.Context, has *held) error {
	own, theirs, err := linkPair()
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }()
	cmd := h.Command(ctx)
	cmd.ExtraFiles = []*os.File{theirs}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, holderVariable+"=3")
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = farewellTime
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		return err
	}
	if h.Started != nil {
		h.Started()
	}
	if has.device != nil {
		err = errors.Join(own.send(wordState, int(has.device.Fd()), int(has.memory.Fd())), has.sendLog(own))
	} else {
		err = own.send(wordNone)
	}
	if err != nil {
		err = fmt.Errorf("the daemon cannot be notified: %w", err)
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		own.hold(has)
	}()
	ended := cmd.Wait()
	<-received // all words of the daemon were received
	return errors.Join(ended, err)
}

// hold receives the words of a daemon until it ends.
func (l *link) hold(has *held) {
	for {
		word, fds, err := l.receive(0, 1)
		if err != nil {
			return
		}
		switch {
		case word == wordMount && len(fds) == 1:
			has.replace(&has.device, os.NewFile(uintptr(fds[0]), "/dev/fuse"))
		case word == wordState && len(fds) == 1:
			has.replace(&has.memory, os.NewFile(uintptr(fds[0]), "state"))
		case word == wordMemory && len(fds) == 1:
			has.replace(&has.logMemory, os.NewFile(uintptr(fds[0]), "log"))
		case word == wordLog && len(fds) == 1:
			has.replace(&has.logLink, os.NewFile(uintptr(fds[0]), "log holder"))
		case word == wordLeft:
			has.close()
		}
	}
}

func (h *held) replace(old **os.File, by *os.File) {
	if *old != nil {
		_ = (*old).Close()
	}
	*old = by
}
