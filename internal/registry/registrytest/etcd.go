// Package registrytest runs a real etcd for tests: the one in PATH, or Debian's that deploy/deps.sh fetches.
package registrytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/test/cluster"
)

// TLS are the files with which an etcd encrypts and asks its clients for certificates.
type TLS struct{ Certificate, Key, ClientCA string }

// Options describe the etcd to run. The zero Options are one member without TLS.
type Options struct {
	Members int      // 0 is 1
	TLS     *TLS     // nil: clients speak http
	Args    []string // further arguments of each member
}

// Etcd is one member on loopback ports that is killed at the end of the test.
type Etcd struct {
	Dir string // its data: an etcd without is a new one

	binary   string
	args     []string
	endpoint string
	health   string

	mu      sync.Mutex
	process *exec.Cmd // GUARDED_BY mu; nil when it does not run
	output  *bytes.Buffer
}

// Start runs one etcd without TLS, and returns when it answers. The test is skipped if etcd is not installed.
func Start(t testing.TB) *Etcd { return StartWith(t, Options{})[0] }

// StartWith runs an etcd with options, and returns its members when all answer.
func StartWith(t testing.TB, options Options) []*Etcd {
	path, err := cluster.FindEtcd()
	if err != nil {
		t.Skipf("no etcd: run deploy/deps.sh test (%v)", err)
	}
	scheme := "http"
	if options.TLS != nil {
		scheme = "https"
	}
	members := make([]*Etcd, max(options.Members, 1))
	peers, initial := make([]string, len(members)), make([]string, len(members))
	// Other processes may take these ports before etcd does: then etcd reports an error and the test fails.
	addresses := make([]string, 3*len(members))
	for i := range addresses {
		addresses[i] = FreeAddress(t)
	}
	for i := range members {
		peers[i] = "http://" + addresses[3*i]
		initial[i] = fmt.Sprintf("m%d=%s", i, peers[i])
	}
	for i := range members {
		e := &Etcd{
			Dir: filepath.Join(t.TempDir(), "etcd"), binary: path,
			endpoint: scheme + "://" + addresses[3*i+1], health: "http://" + addresses[3*i+2],
		}
		e.args = []string{
			"--name", fmt.Sprintf("m%d", i), "--data-dir", e.Dir,
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i], "--initial-cluster", strings.Join(initial, ","),
			"--listen-client-urls", e.endpoint, "--advertise-client-urls", e.endpoint, "--listen-metrics-urls", e.health,
			"--heartbeat-interval", "50", "--election-timeout", "500", // it is all on one machine
		}
		if options.TLS != nil {
			e.args = append(e.args, "--client-cert-auth", "--cert-file", options.TLS.Certificate, "--key-file", options.TLS.Key,
				"--trusted-ca-file", options.TLS.ClientCA)
		}
		e.args = append(e.args, options.Args...)
		members[i] = e
		t.Cleanup(e.Kill)
	}
	Restart(t, members...)
	return members
}

// FreeAddress returns an address on loopback that is not in use now (cluster.FreeAddress).
func FreeAddress(t testing.TB) string {
	address, err := cluster.FreeAddress("127.0.0.1")
	require.NoError(t, err)
	return address
}

// Endpoint returns the URL for clients.
func (e *Etcd) Endpoint() string { return e.endpoint }

// Endpoints returns the endpoints of several members.
func Endpoints(members []*Etcd) []string {
	var all []string
	for _, e := range members {
		all = append(all, e.endpoint)
	}
	return all
}

// Kill ends the member as a crash would.
func (e *Etcd) Kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return
	}
	_ = e.process.Process.Kill()
	e.wait()
}

// Stop lets the member end itself, and returns when it has.
func (e *Etcd) Stop(t testing.TB) {
	e.mu.Lock()
	defer e.mu.Unlock()
	require.NotNil(t, e.process, "etcd does not run")
	require.NoError(t, e.process.Process.Signal(syscall.SIGTERM))
	e.wait()
}

func (e *Etcd) wait() {
	_ = e.process.Wait() // its error is that it was ended by a signal
	e.process = nil
}

// Pause stops the member's process where it is, and returns when it has stopped; Resume lets it go on.
func (e *Etcd) Pause(t testing.TB) {
	pid := e.signal(t, syscall.SIGSTOP)
	// WNOWAIT: the end of the process is left to a later wait.
	require.NoError(t, unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil))
}

// Resume ends a Pause.
func (e *Etcd) Resume(t testing.TB) { e.signal(t, syscall.SIGCONT) }

// signal returns the process that got it.
func (e *Etcd) signal(t testing.TB, signal os.Signal) (pid int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	require.NotNil(t, e.process, "etcd does not run")
	require.NoError(t, e.process.Process.Signal(signal))
	return e.process.Process.Pid
}

// Restart runs the member again with its data and ports, after Kill or Stop, and returns when it answers.
// Members that need each other for that are given to the function Restart together.
func (e *Etcd) Restart(t testing.TB) { Restart(t, e) }

// Restart runs members that do not run, and returns when all of these answer.
func Restart(t testing.TB, members ...*Etcd) {
	for _, e := range members {
		e.run(t)
	}
	for _, e := range members {
		e.await(t)
	}
}

func (e *Etcd) run(t testing.TB) {
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Nil(t, e.process, "etcd runs already")
	e.output = &bytes.Buffer{}
	e.process = exec.Command(e.binary, e.args...)
	// Nothing of the test's environment: etcd takes ETCD_... for flags. The one here lets it run on other
	// than amd64.
	e.process.Env = []string{"ETCD_UNSUPPORTED_ARCH=" + runtime.GOARCH}
	e.process.Stdout, e.process.Stderr = e.output, e.output
	e.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also if the test is killed
	require.NoError(t, e.process.Start())
}

// await returns when the member has a leader and answers.
func (e *Etcd) await(t testing.TB) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := e.ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			e.Kill() // which also completes its output
			t.Fatalf("etcd does not answer: %v\n%s", errors.Join(ctx.Err(), err), e.output)
		}
	}
}

func (e *Etcd) ask(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.health+"/health", nil)
	if err != nil {
		return err
	}
	request.Close = true // no connection lingers
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("its health: %s", response.Status)
	}
	return nil
}
