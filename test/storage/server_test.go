package storage

import (
	"bufio"
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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// copies is the number of copies of each block.
const copies = 3

// healing has short intervals.
var healing = region.Healing{
	PingInterval: 100 * time.Millisecond, DownAfter: 2 * time.Second,
	RepairInterval: time.Second, RepairPause: 50 * time.Millisecond, RepairBytes: 256 << 20,
	ScrubPause: 500 * time.Millisecond, ScrubBytes: 256 << 20,
}

// address returns the address of a server in the run with this number. Concurrent runs use different loopback
// addresses.
func address(run int, p multicast.ProcessID) string {
	return fmt.Sprintf("127.%d.%d.%d:7946", 64+run>>8&63, run&255, p)
}

// order is the configuration of a server, which it gets in its environment.
type order struct {
	Run     int
	Self    multicast.ProcessID
	Dir     string
	Members region.Members
}

const orderVariable = "GLOBALFS_TEST_STORAGE_SERVER"

func TestMain(m *testing.M) {
	if text := os.Getenv(orderVariable); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve is the main function of a server's process. It ends cleanly on SIGTERM, or when the process that
// started it ends.
func serve(text string) (err error) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	listener, err := transport.Listen(transport.Config{
		Address: address(o.Run, o.Self),
		Resolve: func(p multicast.ProcessID) (string, bool) { return address(o.Run, p), true },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	s, err := server.StartStorage(server.StorageConfig{
		Self: o.Self, Members: o.Members, Copies: copies, Dir: o.Dir, NoSync: true, Healing: healing, Endpoint: listener.Endpoint(o.Self),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	s.Run(ctx)
	return s.Close()
}

// process is a running server.
type process struct {
	command *exec.Cmd
	stdin   io.Closer
	ended   chan error
}

// startServer starts a server and waits until it answers.
func startServer(t *testing.T, o *order) *process {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	p := &process{command: exec.Command(program), ended: make(chan error, 1)}
	p.command.Env = append(os.Environ(), orderVariable+"="+string(text))
	p.command.Stderr = os.Stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.command.StdoutPipe()
	require.NoError(t, err)
	p.stdin, err = p.command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("server %d does not start: %q, %v, %v", o.Self, line, err, p.command.Wait())
	}
	go func() { p.ended <- p.command.Wait() }()
	return p
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	require.NoError(t, p.command.Process.Signal(s))
}

// kill ends the process with SIGKILL.
func (p *process) kill(t *testing.T) {
	p.signal(t, syscall.SIGKILL)
	<-p.ended
}

// stop ends the process with SIGTERM.
func (p *process) stop(t *testing.T) {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended after an earlier SIGTERM
	select {
	case err := <-p.ended:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		p.kill(t)
		t.Error("a server does not end")
	}
}

// diskFiles returns the segments of a server, or the files of its index.
func diskFiles(t *testing.T, dir string, index bool) []string {
	pattern := filepath.Join(dir, "blocks", "*.seg")
	if index {
		pattern = filepath.Join(dir, "blocks", "index", "*")
	}
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return files
}
