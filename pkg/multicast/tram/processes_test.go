package tram_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/shm"
	"github.com/globalfs/globalfs/pkg/fabric/soft"
	"github.com/globalfs/globalfs/pkg/fabric/verbs"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// roleVariable is the environment variable by which a test starts this program again as a process of TRAM. It
// has the role of the process.
const roleVariable = "TRAM_TEST_ROLE"

// role is the part of a process in a test.
type role struct {
	Process      multicast.ProcessID
	Group        multicast.GroupID
	Kind         string // soft, shm, or the name of an RDMA device
	Dir          string // of the sockets
	SuspectAfter time.Duration
}

// progress is a line that a process writes to its output after a step.
type progress struct {
	Delivered []multicast.Delivery
	Leads     bool
}

func TestMain(m *testing.M) {
	text := os.Getenv(roleVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var r role
	if err := errors.Join(json.Unmarshal([]byte(text), &r), r.run()); err != nil {
		fmt.Fprintln(os.Stderr, text, err)
		os.Exit(1)
	}
}

func (r *role) socket(of multicast.ProcessID) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: filepath.Join(r.Dir, fmt.Sprint(of))}
}

// dial connects to another process. A connection begins with the number of its maker.
func (r *role) dial(_ context.Context, peer fabric.NodeID) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, r.socket(multicast.ProcessID(peer)))
	if err == nil {
		_, err = conn.Write([]byte{byte(r.Process)})
	}
	return conn, err
}

// open opens the memory of the process. serve lets a peer use it.
func (r *role) open() (e fabric.Endpoint, serve func(peer fabric.NodeID, conn *net.UnixConn) error, err error) {
	self := fabric.NodeID(r.Process)
	dial := func(ctx context.Context, peer fabric.NodeID) (net.Conn, error) { return r.dial(ctx, peer) }
	switch r.Kind {
	case "soft":
		e, err := soft.New(soft.Config{Self: self, Dial: dial})
		return e, func(peer fabric.NodeID, conn *net.UnixConn) error { return e.Serve(peer, conn) }, err
	case "shm":
		e, err := shm.New(shm.Config{Self: self, Dial: dial})
		return e, func(peer fabric.NodeID, conn *net.UnixConn) error { return e.Serve(peer, conn) }, err
	default:
		e, err := verbs.New(verbs.Config{Self: self, Dial: dial, Device: r.Kind, Look: time.Second})
		return e, func(peer fabric.NodeID, conn *net.UnixConn) error { return e.Serve(peer, conn) }, err
	}
}

// run runs the process until its input ends. The input has the messages that the process multicasts.
func (r *role) run() error {
	endpoint, serve, err := r.open()
	if err != nil {
		return err
	}
	n, err := newNode(r.Process, r.Group, endpoint, r.SuspectAfter)
	if err != nil {
		return err
	}
	listener, err := net.ListenUnix("unix", r.socket(r.Process))
	if err != nil {
		return err
	}
	go accept(listener, serve)
	out, led := json.NewEncoder(os.Stdout), false
	go n.drive(time.Now(), func(step *tram.Output, leads bool) {
		if len(step.Deliveries) > 0 || leads != led {
			led = leads
			_ = out.Encode(progress{Delivered: step.Deliveries, Leads: leads}) // the test sees the end of the process
		}
	})
	for in := json.NewDecoder(os.Stdin); ; {
		var m multicast.Message
		if err := in.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n.mu.Lock()
		n.proposed = append(n.proposed, m)
		n.mu.Unlock()
	}
}

func accept(listener *net.UnixListener, serve func(peer fabric.NodeID, conn *net.UnixConn) error) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			var name [1]byte
			if _, err := io.ReadFull(conn, name[:]); err == nil {
				_ = serve(fabric.NodeID(name[0]), conn)
			}
		}()
	}
}

// process is the test's view of a process.
type process struct {
	role
	cmd   *exec.Cmd
	input io.WriteCloser
	seq   uint64
	dead  bool
	ended chan struct{} // its output has ended

	mu        sync.Mutex
	delivered []check.Delivery
	leads     bool
}

// processes are the processes of three groups, and the history of their messages.
type processes struct {
	t       *testing.T
	start   time.Time
	all     []*process
	history check.History
}

// startProcesses starts the processes of three groups. Those of one RDMA device share it.
func startProcesses(t *testing.T, kinds []string, suspectAfter time.Duration) *processes {
	dir, err := os.MkdirTemp("", "tram-") // short: the path of a socket has at most 108 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &processes{t: t, start: time.Now()}
	for _, g := range threeGroups() {
		for _, id := range g.Members {
			c.begin(role{Process: id, Group: g.ID, Kind: kinds[int(id)%len(kinds)], Dir: dir, SuspectAfter: suspectAfter})
		}
	}
	return c
}

func (c *processes) begin(r role) {
	text, err := json.Marshal(r)
	require.NoError(c.t, err)
	p := &process{role: r, cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.input, err = p.cmd.StdinPipe()
	require.NoError(c.t, err)
	output, err := p.cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, p.cmd.Start())
	c.all = append(c.all, p)
	c.t.Cleanup(func() { p.kill() })
	go func() {
		defer close(p.ended)
		for lines := json.NewDecoder(output); ; {
			var now progress
			if lines.Decode(&now) != nil {
				return // the process has ended, perhaps within a line
			}
			p.mu.Lock()
			p.leads = now.Leads
			for _, d := range now.Delivered {
				p.delivered = append(p.delivered, check.Delivery{Process: p.Process, ID: d.ID, Final: d.Final, At: time.Since(c.start)})
			}
			p.mu.Unlock()
		}
	}()
}

// kill ends a process like kill -9, and collects the rest of its output.
func (p *process) kill() {
	if !p.dead {
		p.dead = true
		_ = p.cmd.Process.Kill() // the process may have ended
		<-p.ended
		_ = p.cmd.Wait() // it was killed
	}
}

// multicast lets each living process multicast messages.
func (c *processes) multicast(rounds uint64) {
	for range rounds {
		for _, p := range c.all {
			if p.dead {
				continue
			}
			p.seq++
			m := multicast.Message{
				ID:   multicast.MessageID{Sender: p.Process, Seq: p.seq},
				Dest: destinations[(p.seq+uint64(p.Process))%uint64(len(destinations))], Payload: []byte("payload"),
			}
			c.history.Multicasts = append(c.history.Multicasts, check.Multicast{ID: m.ID, Dest: m.Dest, At: time.Since(c.start)})
			require.NoError(c.t, json.NewEncoder(p.input).Encode(m))
		}
	}
}

// leader returns the process that leads a group and has delivered something, or nil.
func (c *processes) leader(group multicast.GroupID) *process {
	for _, p := range c.all {
		p.mu.Lock()
		found := !p.dead && p.Group == group && p.leads && len(p.delivered) > 0
		p.mu.Unlock()
		if found {
			return p
		}
	}
	return nil
}

// await waits until something holds.
func (c *processes) await(what string, holds func() bool) {
	c.t.Helper()
	began := time.Now()
	require.Eventually(c.t, holds, 3*time.Minute, 20*time.Millisecond, what)
	c.t.Logf("%s: after %v", what, time.Since(began).Round(time.Millisecond))
}

// recorded returns the history up to now.
func (c *processes) recorded() *check.History {
	h := c.history
	for _, p := range c.all {
		p.mu.Lock()
		h.Processes = append(h.Processes, check.Process{ID: p.Process, Group: p.Group, Correct: !p.dead})
		h.Deliveries = append(h.Deliveries, p.delivered...)
		p.mu.Unlock()
	}
	return &h
}

// TestProcesses: three groups of three processes with their memory in shared memory, or on connections. The
// leader of each group in turn is killed under load. All messages of the others are delivered by all that
// live, in an acyclic order. test/rdma runs this test over RDMA.
func TestProcesses(t *testing.T) {
	if devices := strings.Fields(os.Getenv("GLOBALFS_TEST_RDMA")); len(devices) > 0 {
		t.Run("verbs", func(t *testing.T) { testProcesses(t, devices, time.Second) })
		return
	}
	for _, kind := range []string{"soft", "shm"} {
		t.Run(kind, func(t *testing.T) { testProcesses(t, []string{kind}, 200*time.Millisecond) })
	}
}

func testProcesses(t *testing.T, kinds []string, suspectAfter time.Duration) {
	c := startProcesses(t, kinds, suspectAfter)
	for _, g := range threeGroups() {
		c.multicast(10)
		var leader *process
		c.await(fmt.Sprintf("group %d has a leader that delivers", g.ID), func() bool {
			leader = c.leader(g.ID)
			return leader != nil
		})
		leader.kill()
		t.Logf("process %d of group %d is killed", leader.Process, g.ID)
		c.multicast(10)
		c.await(fmt.Sprintf("group %d has another leader", g.ID), func() bool { return c.leader(g.ID) != nil })
	}
	c.await("all messages are delivered", func() bool {
		h := c.recorded()
		return len(check.Validity(h)) == 0 && len(check.Agreement(h)) == 0
	})
	h := c.recorded()
	require.Empty(t, check.Integrity(h))
	require.Empty(t, check.PrefixOrder(h))
	require.Empty(t, check.AcyclicOrder(h))
	t.Logf("%d messages, %d deliveries", len(h.Multicasts), len(h.Deliveries))
}
