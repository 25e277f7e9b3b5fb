package shm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"net"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// The environment variables by which a test starts this program again as a node.
const (
	roleVariable = "SHM_TEST_ROLE"
	dirVariable  = "SHM_TEST_DIR"
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := child(role, os.Getenv(dirVariable)); err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		os.Exit(1)
	}
}

const (
	theRegion  = 7
	regionSize = 4096
)

// child is a process of a test. It ends with its input.
func child(role, dir string) error {
	w := &wires{dir: dir, conns: map[[2]fabric.NodeID][]net.Conn{}, cut: map[[2]fabric.NodeID]bool{}}
	switch role {
	case "target":
		return childTarget(w)
	case "writer":
		return childWriter(w)
	}
	return fmt.Errorf("there is no role %q", role)
}

// childTarget is node 2. Node 1 may write and read.
func childTarget(w *wires) error {
	e, err := New(Config{Self: 2, Dial: w.dialer(2)})
	if err != nil {
		return err
	}
	if _, err := e.Register(theRegion, regionSize); err != nil {
		return err
	}
	if err := e.Grant(theRegion, 1, fabric.Readable|fabric.Writable); err != nil {
		return err
	}
	_ = os.Remove(w.address(2).Name)
	l, err := net.ListenUnix("unix", w.address(2))
	if err != nil {
		return err
	}
	go serveAll(l, e)
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// childWriter is node 1. It fills the region of node 2 with one number after the other.
func childWriter(w *wires) error {
	e, err := New(Config{Self: 1, Dial: w.dialer(1), Ring: minRing})
	if err != nil {
		return err
	}
	var events fabric.Events
	for posted, ended := uint64(0), uint64(0); ; {
		for posted < ended+64 {
			posted++
			data := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, posted), regionSize/8)
			if err := e.Post(fabric.Op{Token: posted, Peer: 2, Region: theRegion, Data: data}); err != nil {
				return err
			}
		}
		e.Wait(time.Second)
		events.Reset()
		e.Poll(&events)
		for _, c := range events.Completions {
			if c.Status != fabric.OK {
				return fmt.Errorf("write %d: %v", c.Token, c.Status)
			}
			ended = c.Token
		}
		if ended > 0 && ended == uint64(len(events.Completions)) {
			fmt.Println("ready") // after the first completions
		}
	}
}

// spawn starts a process with a role and waits until it is ready.
func spawn(t *testing.T, role, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		kill(cmd)
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, "the process has ended")
	require.Equal(t, "ready\n", line)
	return cmd
}

// kill ends a process with SIGKILL.
func kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// post posts an operation and waits for its end.
func post(t *testing.T, e *Endpoint, op fabric.Op) fabric.Completion {
	t.Helper()
	require.NoError(t, e.Post(op))
	var events fabric.Events
	for range 10_000 {
		e.Poll(&events)
		if len(events.Completions) > 0 {
			return events.Completions[0]
		}
		e.Wait(time.Minute)
	}
	require.Fail(t, "no completion")
	return fabric.Completion{}
}

// TestKilledTarget: operations are lost at once when the target process dies, not after Config.Timeout. The
// completion of a Reset shows that the target has new memory.
func TestKilledTarget(t *testing.T) {
	w := &wires{t: t, dir: t.TempDir(), conns: map[[2]fabric.NodeID][]net.Conn{}, cut: map[[2]fabric.NodeID]bool{}}
	target := spawn(t, "target", w.dir)
	e, err := New(Config{Self: 1, Dial: w.dialer(1), Timeout: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	write := fabric.Op{Token: 1, Peer: 2, Region: theRegion, Data: []byte("12345678")}
	reset := fabric.Op{Token: 2, Kind: fabric.Reset, Peer: 2, Region: theRegion}
	require.Equal(t, fabric.OK, post(t, e, write).Status)
	before := post(t, e, reset).Incarnation
	kill(target)
	require.Equal(t, fabric.Lost, post(t, e, write).Status)
	require.Equal(t, fabric.Lost, post(t, e, reset).Status)
	spawn(t, "target", w.dir)
	after := post(t, e, reset)
	require.Equal(t, fabric.OK, after.Status)
	require.NotEqual(t, before, after.Incarnation)
	read := post(t, e, fabric.Op{Kind: fabric.Read, Peer: 2, Region: theRegion, Length: 8})
	require.Equal(t, make([]byte, 8), read.Data, "the memory of the killed process is gone")
}

// TestKilledWriter: a writer that is killed leaves a prefix of its writes, and of the last one at most a
// part. After Revoke nothing changes, and another node takes over.
func TestKilledWriter(t *testing.T) {
	w := &wires{t: t, dir: t.TempDir(), conns: map[[2]fabric.NodeID][]net.Conn{}, cut: map[[2]fabric.NodeID]bool{}}
	e, err := New(Config{Self: 2, Dial: w.dialer(2)})
	require.NoError(t, err)
	t.Cleanup(w.serving.Wait)
	t.Cleanup(func() { e.Close() })
	m, err := e.Register(theRegion, regionSize)
	require.NoError(t, err)
	require.NoError(t, e.Grant(theRegion, 1, fabric.Writable))
	require.NoError(t, e.Grant(theRegion, 2, fabric.Writable|fabric.Readable))
	w.listen(2, e)
	for range 3 {
		m.Store(0, make([]byte, regionSize))
		require.NoError(t, e.Grant(theRegion, 1, fabric.Writable))
		writer := spawn(t, "writer", w.dir)
		kill(writer)
		require.NoError(t, e.Revoke(theRegion, 1, fabric.Writable))
		then, later := make([]byte, regionSize), make([]byte, regionSize)
		m.Load(0, then)
		high := binary.LittleEndian.Uint64(then)
		require.Positive(t, high)
		for at := 0; at < regionSize; at += 8 {
			v := binary.LittleEndian.Uint64(then[at:])
			require.True(t, v == high || v == high-1, "word %d is %d, the first one %d", at/8, v, high)
		}
		mine := fabric.Op{Peer: 2, Region: theRegion, Data: binary.LittleEndian.AppendUint64(nil, 1<<40)}
		require.Equal(t, fabric.OK, post(t, e, mine).Status)
		copy(then, mine.Data)
		m.Load(0, later)
		require.Equal(t, then, later, "a revoked writer has written")
	}
}
