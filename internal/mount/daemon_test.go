package mount

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A daemon is a separate process that serves a mount, of a cluster in the test's process. It is this test
// binary.

// role is the configuration of a daemon.
type role struct {
	Cluster string // socket of the cluster
	Dir     string
	Socket  string // of handovers
	Take    bool   // the mount from the process that offers it there
	FailAt  string // where it ends instead: see runDaemon
	Hold    bool   // it holds the mount, and starts daemons that serve it
	PID     string // where each daemon adds its process id, in a line
	Holding bool   // it holds directories, with a log
	Behind  bool   // it keeps content of open files
	Log     bool   // it is the log holder of a daemon

	log *serve.Log
}

const roleVariable = "GLOBALFS_TEST_DAEMON"

func TestMain(m *testing.M) {
	var r role
	text, ok := os.LookupEnv(roleVariable)
	if !ok {
		os.Exit(m.Run())
	}
	if err := errors.Join(json.Unmarshal([]byte(text), &r), runDaemon(&r)); err != nil {
		fmt.Fprintln(os.Stderr, "daemon:", err)
		os.Exit(1)
	}
}

func runDaemon(r *role) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	switch {
	case r.Hold:
		return r.hold(logger)
	case r.Log:
		return r.holdLog(logger)
	}
	if err := r.notePID(); err != nil {
		return err
	}
	cfg, err := r.client(logger)
	if err != nil {
		return err
	}
	keeper, handed, err := serve.Held()
	if err != nil {
		return err
	}
	leave := func() error { return nil }
	if r.Holding {
		if leave, err = r.startLog(&cfg, keeper); err != nil {
			return err
		}
	}
	m, c, err := r.serve(cfg, logger, handed)
	if err != nil {
		return err
	}
	if r.log != nil {
		state, err := json.Marshal(c.Snapshot())
		if err := errors.Join(err, r.log.Save(state)); err != nil {
			return err
		}
	}
	if keeper != nil {
		if err := keeper.Keep(m); err != nil {
			return err
		}
	}
	if err := m.OfferHandover(r.Socket); err != nil {
		return err
	}
	fmt.Println("serving")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test lets it end
		_ = m.Unmount()
	}()
	m.Wait()
	return errors.Join(c.Close(), leave())
}

// client configures a client of the cluster.
func (r *role) client(logger *slog.Logger) (client.Config, error) {
	remote, err := rpc.Dial("unix", r.Cluster)
	if err != nil {
		return client.Config{}, err
	}
	far := &farCluster{remote}
	plan, err := spec.Plan()
	return client.Config{
		Cluster: plan, Region: "us-west-2", Caller: far, Blocks: func(uint16) block.Store { return far }, Logger: logger,
	}, err
}

// startLog makes the log of a daemon, or continues with that of the daemon before.
func (r *role) startLog(cfg *client.Config, keeper *serve.Keeper) (leave func() error, err error) {
	holder := *r
	holder.Log = true
	text, err := json.Marshal(&holder)
	if err != nil {
		return nil, err
	}
	of := serve.LogConfig{Size: client.JournalSize, Logger: cfg.Logger, Command: func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
		cmd.Stderr = os.Stderr
		return cmd
	}}
	var l *serve.Log
	if keeper != nil {
		l, err = keeper.Log(of)
	} else {
		l, err = serve.StartLog(of)
	}
	if err != nil {
		return nil, err
	}
	cfg.Delegate, cfg.CacheNames = true, true
	cfg.Journal, err = client.OpenJournal(l.Memory)
	r.log = l
	return func() error {
		_, err := l.Close()
		return err
	}, err
}

// holdLog is the life of a log holder.
func (r *role) holdLog(logger *slog.Logger) error {
	h := serve.LogHolder{Dir: r.Dir, Size: client.JournalSize, Logger: logger, Pending: client.Pending, Carry: func(ctx context.Context, memory, state []byte, _ func()) error {
		cfg, err := r.client(logger)
		if err != nil {
			return err
		}
		cfg.Delegate, cfg.Hard = true, true
		cfg.Journal, err = client.OpenJournal(memory)
		if err != nil {
			return err
		}
		if cfg.Resume, err = client.DecodeState(state); err != nil {
			return err
		}
		c, err := client.New(cfg)
		if err != nil {
			return err
		}
		return errors.Join(c.GiveBack(ctx), c.Close())
	}}
	return h.Run(context.Background())
}

// hold is the life of a holder.
func (r *role) hold(logger *slog.Logger) error {
	daemon := *r
	daemon.Hold = false
	text, err := json.Marshal(&daemon)
	if err != nil {
		return err
	}
	h := &serve.Holder{Logger: logger, Command: func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return cmd
	}}
	return h.Run(context.Background())
}

func (r *role) notePID() error {
	if r.PID == "" {
		return nil
	}
	f, err := os.OpenFile(r.PID, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	return errors.Join(err, f.Close())
}

// serve makes a mount or takes one.
func (r *role) serve(cfg client.Config, logger *slog.Logger, handed *serve.Handed) (*serve.Mount, *client.Client, error) {
	if handed != nil {
		if r.FailAt == "successor" {
			os.Exit(3)
		}
		return take(cfg, logger, handed)
	}
	if !r.Take {
		c, err := client.New(cfg)
		if err != nil {
			return nil, nil, err
		}
		m, err := New(Config{Client: c, Dir: r.Dir, Logger: logger, Sync: !r.Behind}) // as with --supervise
		return m, c, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	handed, err := serve.RequestHandover(ctx, r.Socket)
	if err != nil {
		return nil, nil, err
	}
	switch r.FailAt {
	case "exit":
		os.Exit(3)
	case "close":
		return nil, nil, errors.Join(errors.New("as told"), handed.Close())
	case "ready":
		f := &dying{newFileSystem(&Config{Logger: logger})}
		_, err := serve.Take(serve.Config{FileSystem: f, Options: wishes(logger), Logger: logger}, handed)
		return nil, nil, err
	case "terms":
		s, err := serve.DecodeState(handed.State)
		if err != nil {
			return nil, nil, err
		}
		s.Terms.Reply[24]++ // behind the header
		if handed.State, err = json.Marshal(s); err != nil {
			return nil, nil, err
		}
	}
	return take(cfg, logger, handed)
}

// dying is a file system of a process that dies just when its predecessor has released the mount.
type dying struct{ *fileSystem }

func (*dying) Adopt(*serve.State) error { return nil }

func (*dying) Continue() { os.Exit(3) }

func take(cfg client.Config, logger *slog.Logger, handed *serve.Handed) (*serve.Mount, *client.Client, error) {
	of, err := ClientState(handed)
	if err != nil {
		return nil, nil, err
	}
	cfg.Resume = of
	c, err := client.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	m, err := Take(Config{Client: c, Logger: logger, Sync: true}, handed)
	if err != nil {
		return nil, nil, errors.Join(err, handed.Close())
	}
	return m, c, nil
}

// daemon is a running one.
type daemon struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan error
}

// start starts a daemon, and returns when it serves; or when it has ended, with its error.
func start(t *testing.T, r role) (*daemon, error) {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	d := &daemon{cmd: exec.Command(os.Args[0]), done: make(chan error, 1)}
	d.cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	d.cmd.Stderr = os.Stderr
	d.stdin, err = d.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, d.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { d.done <- d.cmd.Wait() }()
	if line != "serving\n" {
		return nil, errors.Join(err, d.wait(t))
	}
	return d, nil
}

// wait returns the daemon's error when it has ended by itself.
func (d *daemon) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-d.done:
		return err
	case <-time.After(30 * time.Second):
		require.NoError(t, d.cmd.Process.Kill())
		require.Fail(t, "the daemon does not end")
		return nil
	}
}

// served is a cluster with a mount that daemons serve, one after the other.
type served struct {
	*clienttest.Network
	role   role
	daemon *daemon
}

func serveHere(t *testing.T, r role) *served {
	t.Helper()
	s := clusterFor(t, r)
	var err error
	s.daemon, err = start(t, s.role)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.daemon.stdin.Close())
		require.NoError(t, s.daemon.wait(t))
		_, ok := mountpoint.At(s.role.Dir)
		require.False(t, ok)
	})
	return s
}

// clusterFor makes the cluster, and a directory to mount it at.
func clusterFor(t *testing.T, r role) *served {
	t.Helper()
	n := clienttest.New(t, spec, time.Minute)
	mountOf(t, n) // or skips
	base := t.TempDir()
	r.Cluster, r.Dir, r.Socket = filepath.Join(base, "cluster"), filepath.Join(base, "m"), filepath.Join(base, "handover")
	require.NoError(t, os.Mkdir(r.Dir, 0o755))
	listener, err := net.Listen("unix", r.Cluster)
	require.NoError(t, err)
	server := rpc.NewServer()
	require.NoError(t, server.RegisterName("Cluster", &Near{n}))
	go server.Accept(listener)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	return &served{Network: n, role: r}
}

func (s *served) path(name string) string { return filepath.Join(s.role.Dir, name) }

// succeed lets another daemon take the mount.
func (s *served) succeed(t *testing.T) {
	t.Helper()
	r := s.role
	r.Take = true
	next, err := start(t, r)
	require.NoError(t, err)
	require.NoError(t, s.daemon.wait(t))
	s.daemon = next
}

// Near answers daemons, in the process of the cluster.
type Near struct{ n *clienttest.Network }

// CallArgs is a call of a replica.
type CallArgs struct {
	To      multicast.ProcessID
	Request []byte
}

// PutArgs is a block.
type PutArgs struct {
	ID   posix.BlockID
	Data []byte
}

// Found is a block, if there is one.
type Found struct {
	Data []byte
	OK   bool
}

func (n *Near) Call(a CallArgs, reply *[]byte) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	*reply, err = n.n.Call(ctx, a.To, a.Request)
	return err
}

func (n *Near) Put(a PutArgs, _ *struct{}) error {
	return n.n.Blocks.Put(context.Background(), block.New(a.ID, a.Data))
}

func (n *Near) Get(id posix.BlockID, f *Found) (err error) {
	f.Data, err = n.n.Blocks.Get(context.Background(), id, nil)
	f.OK = err == nil
	if errors.Is(err, block.ErrNotFound) {
		return nil
	}
	return err
}

// farCluster is the cluster as daemons see it.
type farCluster struct{ remote *rpc.Client }

func (c *farCluster) call(ctx context.Context, method string, args, reply any) error {
	select {
	case done := <-c.remote.Go("Cluster."+method, args, reply, make(chan *rpc.Call, 1)).Done:
		return done.Error
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *farCluster) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	reply := new([]byte)
	err := c.call(ctx, "Call", CallArgs{to, request}, reply)
	if err != nil {
		return nil, err
	}
	return *reply, nil
}

func (c *farCluster) Put(ctx context.Context, b block.Block) error {
	return c.call(ctx, "Put", PutArgs{b.ID, b.Data}, new(struct{}))
}

func (c *farCluster) Get(ctx context.Context, id posix.BlockID, _ []byte) ([]byte, error) {
	f := new(Found)
	if err := c.call(ctx, "Get", id, f); err != nil {
		return nil, err
	}
	if !f.OK {
		return nil, block.ErrNotFound
	}
	return f.Data, nil
}

func (c *farCluster) Delete(context.Context, []posix.BlockID) error { return errors.ErrUnsupported }

func (c *farCluster) Range(context.Context, posix.BlockID, posix.BlockID) iter.Seq2[posix.BlockID, error] {
	return func(func(posix.BlockID, error) bool) {}
}
