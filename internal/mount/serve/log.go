package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/pkg/fabric/ring"
)

// Log is the memory for the log of a mount. It outlives this process: another process, the log holder
// (LogHolder), has it, too. If a log holder dies, Log starts another one.
type Log struct {
	Memory []byte // zeros, or the content by the previous daemon; mapped until the end of the process

	cfg     LogConfig
	file    *os.File
	keeper  *Keeper // passes the log to the Holder, for the next daemon; nil: there is no Holder
	ended   context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	link  *link     // GUARDED_BY mu; the connection to the log holder
	child *exec.Cmd // GUARDED_BY mu; nil: another process has started the log holder
	state []byte    // GUARDED_BY mu; the last saved state, for another log holder
}

// LogConfig configures a Log.
type LogConfig struct {
	Size int
	// Command makes the command of a log holder, which runs LogHolder.Run. ExtraFiles, SysProcAttr and the
	// input and output are the Log's.
	Command func() *exec.Cmd
	Logger  *slog.Logger
}

// logVariable is the environment variable with the log holder's descriptor of the link; the memory is the
// next descriptor.
const logVariable = "GLOBALFS_LOG_FD"

// Words between a mount and its log holder, beside those of a handover. The end of the connection has the
// meaning of wordEnded.
const (
	// wordEnding goes to the log holder: no program uses the mount any more, and its process will end.
	wordEnding = "ending"
	// wordEnded goes to the log holder: the process does not use the log any more.
	wordEnded = "ended"
	// wordKept goes to the mount: there are changes in the log, and the log holder orders them.
	wordKept = "kept"
)

// Bounds of the patience with a log holder.
const (
	logBegins = 20 * time.Second // time limit until it is ready
	logEnds   = 5 * time.Second  // time limit until it has read the log
	maxAgain  = 10 * time.Second // maximum time between two attempts to start another one
)

// StartLog makes a Log with new memory. The log holder is ready when StartLog returns.
func StartLog(cfg LogConfig) (*Log, error) { return startLog(cfg, nil) }

func startLog(cfg LogConfig, k *Keeper) (*Log, error) {
	memory, file, err := ring.Create(cfg.Size)
	if err != nil {
		return nil, fmt.Errorf("memory that outlives this process: %w", err)
	}
	l := newLog(cfg, k, memory, file)
	err = l.start()
	if err == nil {
		err = k.giveLog(l)
	}
	if err != nil {
		if l.link != nil {
			err = errors.Join(err, l.link.Close())
		}
		memory.Unmap()
		return nil, errors.Join(err, file.Close())
	}
	l.running.Go(l.watch)
	return l, nil
}

func newLog(cfg LogConfig, k *Keeper, memory []byte, file *os.File) *Log {
	l := &Log{Memory: memory, cfg: cfg, keeper: k, file: file}
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

// start starts a log holder, and waits until it is ready.
func (l *Log) start() error {
	own, theirs, err := linkPair()
	if err != nil {
		return err
	}
	// Descriptors that this process has inherited are not for a process that outlives it. An older kernel
	// than Linux 5.11 does not know the call.
	_ = unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	cmd := l.cfg.Command()
	cmd.ExtraFiles = []*os.File{theirs, l.file}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, logVariable+"=3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no signal of a terminal or a process group reaches it
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		return errors.Join(fmt.Errorf("log holder: %w", err), own.Close())
	}
	err = own.expect(wordReady, logBegins)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.state != nil {
		err = own.sendState(l.state)
	}
	if err != nil {
		err = fmt.Errorf("log holder: it does not begin: %w", err)
		return errors.Join(err, own.Close(), cmd.Process.Kill(), asKilled(cmd.Wait()))
	}
	l.link, l.child = own, cmd
	return nil
}

// asKilled returns nil for the exit status of a process, which may have been killed, and otherwise err.
func asKilled(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// sendState sends a state of the file system.
func (l *link) sendState(state []byte) error {
	file, err := inMemory(state)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return l.send(wordState, int(file.Fd()))
}

// watch starts another log holder when one has died, until Close.
func (l *Log) watch() {
	for {
		l.mu.Lock()
		link, child := l.link, l.child
		l.mu.Unlock()
		if !link.awaitEnd(l.ended) {
			return
		}
		l.cfg.Logger.Error("the process that holds the log of this mount has died: starting another; until then changes that are not ordered die with this process")
		_ = link.Close()
		if child != nil {
			_ = child.Wait() // it has died
		}
		for wait := firstRestart; ; wait = min(2*wait, maxAgain) {
			err := l.start()
			if err == nil {
				err = l.keeper.giveLog(l)
			}
			if err == nil {
				break
			}
			l.cfg.Logger.Error("no process holds the log of this mount", "error", err)
			if pause.For(l.ended, wait) != nil {
				return
			}
		}
	}
}

// awaitEnd returns when the log holder has ended; false: ctx ended before.
func (l *link) awaitEnd(ctx context.Context) bool {
	stop := context.AfterFunc(ctx, func() { _ = l.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := l.SyscallConn()
	if err != nil {
		return ctx.Err() == nil
	}
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return !errors.Is(err, unix.EAGAIN) && n <= 0 // words stay for Close
	})
	return ctx.Err() == nil && err == nil
}

// Save sends the state of the file system to the log holder, which would continue from this state.
func (l *Log) Save(state []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	return l.link.sendState(state)
}

// Ending informs the log holder that no program uses the mount any more.
func (l *Log) Ending() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.link.send(wordEnding) // only for processes in AwaitLogs
}

// Close leaves the log to the log holder. kept means that the log holder continues, because it has changes to
// order; otherwise the log holder has ended.
func (l *Log) Close() (kept bool, err error) {
	l.end()
	l.running.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { err = errors.Join(err, l.link.Close(), l.file.Close()) }()
	if err := l.link.send(wordEnded); err != nil {
		return false, fmt.Errorf("the log holder is gone: %w", err)
	}
	word, _, err := l.link.receive(logEnds, 0)
	switch {
	case err == nil && word == wordKept:
		if l.child != nil {
			err = l.child.Process.Release()
		}
		return true, err
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		if l.child != nil {
			return false, l.child.Wait()
		}
		return false, nil
	}
	return false, fmt.Errorf("the log holder says %q: %w", word, err)
}

// Log returns the log of the previous daemon, or starts a new one. It is called once, before Keep. The holder
// keeps the access to the log for the next daemon.
func (k *Keeper) Log(cfg LogConfig) (*Log, error) {
	if k.inherited.link == nil {
		l, err := startLog(cfg, k)
		k.log = l
		return l, err
	}
	memory, err := ring.Open(k.inherited.memory, cfg.Size)
	if err != nil {
		return nil, fmt.Errorf("log of the process before: %w: unmount, and mount with this version", err)
	}
	k.log = newLog(cfg, k, memory, k.inherited.memory)
	k.log.link, k.inherited = k.inherited.link, inheritedLog{}
	k.log.running.Go(k.log.watch)
	return k.log, nil
}

// inheritedLog is the log of the previous daemon, until this daemon opens it.
type inheritedLog struct {
	memory *os.File
	link   *link // nil: there is no log
}

// giveLog passes the access to a log to the holder, if there is a log and a holder.
func (k *Keeper) giveLog(l *Log) error {
	if k == nil || l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	raw, err := l.link.SyscallConn()
	if err != nil {
		return err
	}
	err = k.link.send(wordMemory, int(l.file.Fd()))
	failed := raw.Control(func(fd uintptr) { err = errors.Join(err, k.link.send(wordLog, int(fd))) })
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("log of the mount: the holder does not take it: %w", err)
	}
	return nil
}

// takeLog receives the log of the previous daemon, which follows its state.
func (k *Keeper) takeLog() error {
	word, fds, err := k.link.receive(wordTime, 2)
	if err != nil || word != wordMemory || len(fds) != 2 {
		return err
	}
	k.inherited.memory = os.NewFile(uintptr(fds[0]), "log")
	k.inherited.link, err = linkOf(os.NewFile(uintptr(fds[1]), "log holder"))
	return err
}

// sendLog sends the log, or the word that there is none, to a new daemon, after the state.
func (h *held) sendLog(to *link) error {
	if h.logMemory == nil || h.logLink == nil {
		return to.send(wordNone)
	}
	return to.send(wordMemory, int(h.logMemory.Fd()), int(h.logLink.Fd()))
}

// inherited returns the link and the memory of a log holder from its environment.
func inherited() (*link, *os.File, error) {
	text := os.Getenv(logVariable)
	fd, err := strconv.Atoi(text)
	if err == nil {
		err = os.Unsetenv(logVariable)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s=%s: %w", logVariable, text, err)
	}
	l, err := linkOf(os.NewFile(uintptr(fd), "mount"))
	return l, os.NewFile(uintptr(fd+1), "log"), err
}
