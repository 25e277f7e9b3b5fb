// Package objectstest runs a real S3 server for tests: versitygw, which keeps objects as files.
// deploy/deps.sh installs it.
package objectstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The credentials of a Server.
const (
	AccessKey = "globalfs-test"
	SecretKey = "only-for-tests-d41d8cd98f00"
)

// Bucket is one that each Server has.
const Bucket = "blocks"

// version of the server: deploy/deps.sh installs the same one.
const version = "v1.8.0"

// binary is where deploy/deps.sh puts the server.
func binary() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache")
	}
	path := filepath.Join(cache, "globalfs", "tools", "versitygw@"+version)
	_, err := os.Stat(path)
	return path, err
}

// Server is an S3 server on a loopback port that is killed at the end of the test.
type Server struct {
	Dir     string // the objects of bucket b are the files under Dir/b
	address string

	mu      sync.Mutex
	process *exec.Cmd // GUARDED_BY mu; nil when it does not run
	output  *bytes.Buffer
}

// Start runs a server with its objects in dir. The test is skipped if the server is not installed. The
// credentials are in the environment of the test until it ends.
func Start(t testing.TB, dir string) *Server {
	path, err := binary()
	if err != nil {
		t.Skipf("no S3 server: run deploy/deps.sh test (%v)", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", SecretKey)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, Bucket), 0o755))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &Server{Dir: dir, address: listener.Addr().String()}
	require.NoError(t, listener.Close()) // another process may take the port now: then the server reports an error and the test fails
	s.run(t, path)
	t.Cleanup(s.Kill)
	return s
}

// Endpoint returns the URL of the server.
func (s *Server) Endpoint() string { return "http://" + s.address }

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait() // its error is that it was killed
	s.process = nil
}

// Pause stops the server's process where it is, and returns when it has stopped; Resume lets it go on.
func (s *Server) Pause(t testing.TB) {
	pid := s.signal(t, syscall.SIGSTOP)
	// WNOWAIT: the end of the process is left to a later wait.
	require.NoError(t, unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil))
}

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

// signal returns the process that got it.
func (s *Server) signal(t testing.TB, signal os.Signal) (pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(t, s.process.Process.Signal(signal))
	return s.process.Process.Pid
}

// Restart runs the server again at the same address, after Kill.
func (s *Server) Restart(t testing.TB) {
	path, err := binary()
	require.NoError(t, err)
	s.run(t, path)
}

func (s *Server) run(t testing.TB, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output = &bytes.Buffer{}
	s.process = exec.Command(path, "--port", s.address, "--quiet", "--keep-alive", "posix", s.Dir)
	s.process.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	s.process.Stdout, s.process.Stderr = s.output, s.output
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also if the test is killed
	require.NoError(t, s.process.Start())
	if err := s.await(t.Context()); err != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
		t.Fatalf("the S3 server does not answer: %v\n%s", err, s.output)
	}
}

// await returns when the server answers.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (s *Server) ask(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusForbidden {
		return fmt.Errorf("status %s to a request without credentials", response.Status)
	}
	return nil
}
