package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/topology"
)

// A mount with --delegate starts this program again as its log holder (serve.LogHolder), with an environment
// variable in the place of arguments.

// logHolderEnvironment is the environment variable with the logHolding of a log holder.
const logHolderEnvironment = "GLOBALFS_LOG_HOLDER"

// logHolding is the configuration of a log holder. All paths are absolute.
type logHolding struct {
	Dir     string          `json:"dir"` // the mount point
	Servers []string        `json:"servers"`
	Certs   identity.Files  `json:"certs"`
	Region  topology.Region `json:"region"`
	Timeout time.Duration   `json:"timeout"` // of one operation
	Connect time.Duration   `json:"connect"`
	Log     string          `json:"log"` // file
	Level   string          `json:"level"`
	Format  string          `json:"format"`
}

// command returns the command of a log holder.
func (h *logHolding) command() (func() *exec.Cmd, error) {
	text, err := json.Marshal(h)
	return func() *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", "hold-log")
		cmd.Args[0] = os.Args[0]
		cmd.Env = append(os.Environ(), logHolderEnvironment+"="+string(text))
		return cmd
	}, err
}

// isLogHolder reports whether this process is a log holder.
func isLogHolder() bool {
	_, is := os.LookupEnv(logHolderEnvironment)
	return is
}

// runLogHolder is the main function of a log holder. It returns the exit code.
func runLogHolder() int {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM) // the end of the mount ends it
	var h logHolding
	if err := json.Unmarshal([]byte(os.Getenv(logHolderEnvironment)), &h); err != nil {
		return command.ExitFailure // of a process that is not a mount
	}
	redirect(h.Log)
	logger, err := (&logFlags{level: h.Level, format: h.Format, stderr: os.Stderr}).logger()
	if err != nil {
		return command.ExitFailure
	}
	logger = logger.With("mount", h.Dir)
	if err := errors.Join(os.Unsetenv(logHolderEnvironment), os.Chdir("/")); err != nil {
		logger.Warn("the log holder may use the directory in which it was started", "error", err)
	}
	holder := serve.LogHolder{Dir: h.Dir, Size: client.JournalSize, Logger: logger, Pending: client.Pending, Carry: func(ctx context.Context, memory, state []byte, ordered func()) error {
		return h.orderChanges(ctx, memory, state, ordered, logger)
	}}
	if err := holder.Run(context.Background()); err != nil {
		logger.Error("log holder", "error", err)
		return command.ExitFailure
	}
	return 0
}

// endGrace is the time for which a log holder continues after SIGTERM.
const endGrace = 10 * time.Second

// orderChanges orders the logged changes of a mount whose processes have ended: a client restores them from
// the shared memory and the last saved state of the mount. It calls ordered when they are ordered.
func (h *logHolding) orderChanges(ctx context.Context, memory, state []byte, ordered func(), logger *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	defer signal.Stop(terminated)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		select {
		case <-terminated:
			logger.Warn("the log holder has received SIGTERM, and ends", "in", endGrace)
			_ = pause.For(ctx, endGrace)
			cancel()
		case <-ctx.Done():
		}
	})
	if state == nil {
		return errors.New("the mount has not sent its sessions to the log holder")
	}
	of, err := client.DecodeState(state)
	if err != nil {
		return err
	}
	j, err := client.OpenJournal(memory)
	if err != nil {
		return err
	}
	a, err := h.connect(ctx, logger)
	if err != nil {
		return err
	}
	c, err := a.Client(daemon.ClientConfig{
		Region: h.Region, CacheBytes: logHolderCache, Hard: true, Delegate: true, Journal: j, Resume: of, Timeout: h.Timeout,
	})
	if err != nil {
		return errors.Join(err, a.Close())
	}
	return errors.Join(drain(ctx, a, c, ordered), a.Close())
}

// logHolderCache is the size of the block cache of a log holder: it writes blocks, and reads none.
const logHolderCache = 1 << 20

// drain returns when all changes that c has restored are ordered, or lost, and the directories are returned.
// It calls ordered when the changes are ordered. It closes c.
func drain(ctx context.Context, a *daemon.Access, c *attach.Client, ordered func()) error {
	var follows sync.WaitGroup
	following, stop := context.WithCancel(ctx)
	follows.Go(func() { a.Follow(following, c) })
	err := c.Drain(ctx)
	lost := c.Holding().Lost
	if err == nil {
		ordered()
		returning, cancel := context.WithTimeout(ctx, serve.GiveBackWithin)
		if unknown := c.GiveBack(returning); unknown != nil && lost == 0 {
			err = fmt.Errorf("%w: %w", serve.ErrNotReturned, unknown)
		}
		cancel()
	}
	c.Finish()
	stop()
	follows.Wait()
	if err == nil && lost > 0 {
		err = fmt.Errorf("%d changes: see above", lost)
	}
	return errors.Join(err, c.Close())
}

// connect finds the cluster. It tries until a server answers.
func (h *logHolding) connect(ctx context.Context, logger *slog.Logger) (*daemon.Access, error) {
	for warned := false; ; warned = true {
		a, err := daemon.Connect(ctx, daemon.AccessConfig{Servers: h.Servers, Certificates: h.Certs, Timeout: h.Connect, Logger: logger})
		if err == nil {
			return a, nil
		}
		if !warned {
			logger.Warn("no server answers: the changes of the mount wait", "error", err)
		}
		if err := pause.For(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// startLog returns the log of this mount, with a log holder.
func (f *mountFlags) startLog(a *daemon.Access, at place, keeper *serve.Keeper, logger *slog.Logger) (*serve.Log, error) {
	h, err := f.logHolding(a, at)
	if err != nil {
		return nil, err
	}
	cfg := serve.LogConfig{Size: client.JournalSize, Logger: logger}
	if cfg.Command, err = h.command(); err != nil {
		return nil, err
	}
	if keeper != nil {
		return keeper.Log(cfg)
	}
	return serve.StartLog(cfg)
}

func (f *mountFlags) logHolding(a *daemon.Access, at place) (*logHolding, error) {
	files, err := f.certs.find("", identity.Client)
	if err != nil {
		return nil, err
	}
	h := &logHolding{
		Dir: at.dir, Servers: at.servers, Certs: files, Region: f.regionOf(a), Timeout: f.timeout, Connect: f.connect,
		Level: f.logging.level, Format: f.logging.format, Log: os.Getenv(daemonEnvironment),
	}
	if h.Log == "" {
		if h.Log, err = backgroundLog(f.logFile, io.Discard); err != nil {
			return nil, err
		}
	}
	for _, path := range []*string{&h.Certs.CA, &h.Certs.Certificate, &h.Certs.Key, &h.Log} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// saveEvery is the time between two states that a mount saves for its log holder, if there were changes.
const saveEvery = 200 * time.Millisecond

// saveStates saves the state of a client for the log holder, again and again, until ctx ends.
func saveStates(ctx context.Context, c *client.Client, log *serve.Log, logger *slog.Logger) {
	failed := false
	for before := uint64(0); pause.For(ctx, saveEvery) == nil; {
		now := c.Holding().Logged
		if now == before {
			continue
		}
		err := saveState(c, log)
		if err == nil {
			before = now
		} else if !failed {
			logger.Warn("the state of this mount cannot be sent to the log holder", "error", err)
		}
		failed = err != nil
	}
}

func saveState(c *client.Client, log *serve.Log) error {
	state, err := json.Marshal(c.Snapshot())
	if err != nil {
		return err
	}
	return log.Save(state)
}

// quietWait is the time after which a mount logs that it waits for an earlier mount that has no changes left
// to order. Usually such a mount ends sooner.
const quietWait = 2 * time.Second

// awaitLogs waits until earlier mounts at dir have ordered what they have answered.
func (f *mountFlags) awaitLogs(ctx context.Context, dir string, logger *slog.Logger) error {
	if !f.hard {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	began := time.Now()
	err := serve.AwaitLogs(ctx, dir, func(s serve.LogStatus) {
		if s.Changes == 0 && time.Since(began) < quietWait {
			return // it is about to end
		}
		logger.Info("waiting until the changes of an earlier mount at this place are ordered", "process", s.PID, "changes", s.Changes)
	})
	if err != nil {
		return fmt.Errorf("%s: not all changes of an earlier mount at this place are ordered yet: wait until the servers answer, or give the changes up with 'kill -9' of the process: %w", dir, err)
	}
	return nil
}
