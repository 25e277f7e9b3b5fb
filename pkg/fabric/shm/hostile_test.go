package shm

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
	"github.com/globalfs/globalfs/pkg/fabric/ring"
)

// pair makes two ends of a Unix connection.
func pair(t *testing.T) (a, b *net.UnixConn) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	conn := func(fd int) *net.UnixConn {
		file := os.NewFile(uintptr(fd), "pair")
		defer file.Close()
		c, err := net.FileConn(file)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c.(*net.UnixConn)
	}
	return conn(fds[0]), conn(fds[1])
}

// victim returns an endpoint with a region that node 2 may not write, and one that node 2 may.
func victim(t *testing.T, cfg Config) (e *Endpoint, closed fabric.Memory) {
	cfg.Self = 1
	if cfg.Dial == nil {
		cfg.Dial = func(context.Context, fabric.NodeID) (net.Conn, error) { return nil, errCut }
	}
	e, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	closed, err = e.Register(1, 64)
	require.NoError(t, err)
	_, err = e.Register(2, 1<<16)
	require.NoError(t, err)
	require.NoError(t, e.Grant(2, 2, fabric.Readable|fabric.Writable))
	return e, closed
}

func TestConfigNamesTheWrongField(t *testing.T) {
	dial := func(context.Context, fabric.NodeID) (net.Conn, error) { return nil, errCut }
	for want, cfg := range map[string]Config{
		"Self":     {Dial: dial},
		"Dial":     {Self: 1},
		"Timeout":  {Self: 1, Dial: dial, Timeout: -1},
		"Spin":     {Self: 1, Dial: dial, Spin: -1},
		"Ring":     {Self: 1, Dial: dial, Ring: 5000},
		"Patience": {Self: 1, Dial: dial, Patience: -1},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// TestScribbler: an initiator that writes anything anywhere into the segment, also while the target reads,
// harms only its own connection.
func TestScribbler(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ended := map[bool]int{}
	for round := range 60 {
		e, closed := victim(t, Config{})
		here, there := pair(t)
		done := make(chan error, 1)
		go func() { done <- e.Serve(2, there) }()
		s, err := offer(here, minRing, time.Now().Add(time.Minute))
		require.NoError(t, err)
		l := initiatorLink(here, s)
		write := remote.Encode(nil, &fabric.Op{Region: 2, At: 8, Data: make([]byte, 3000)})
		for range 200 {
			switch random.IntN(4) {
			case 0: // an operation with broken bytes
				copy(s.requests(), write)
				s.requests()[random.IntN(remote.HeaderSize)] = byte(random.Uint32())
			case 1: // anything
				at := random.IntN(len(s.Memory) - 8)
				binary.LittleEndian.PutUint64(s.Memory[at:], random.Uint64())
			case 2: // a plausible cursor
				s.Word(requestHead).Add(random.Uint64N(64))
			case 3: // an impossible one, seldom
				if random.IntN(50) == 0 {
					s.Word([]int{requestHead, answerTail}[round%2]).Store(random.Uint64())
				}
			}
			l.other.Store(wakeForBytes | wakeForRoom)
			_ = l.ring(wakeForBytes) // the target may have hung up
		}
		here.Close()
		ended[<-done != nil]++
		got := make([]byte, 64)
		closed.Load(0, got)
		require.Equal(t, make([]byte, 64), got, "round %d", round)
		s.Unmap()
	}
	require.NotZero(t, ended[true], "no round was refused")
}

// result waits for the end of Serve.
func result(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		require.Fail(t, "the connection goes on")
		return nil
	}
}

// TestHostileInitiator: an operation that does not exist ends the connection with an error.
func TestHostileInitiator(t *testing.T) {
	kind := append([]byte{9}, make([]byte, remote.HeaderSize-1)...)
	for want, scribble := range map[string]func(s *segment){
		"kind 9": func(s *segment) {
			copy(s.requests(), kind)
			s.Word(requestHead).Store(remote.HeaderSize)
		},
		"impossible place": func(s *segment) { s.Word(requestHead).Store(minRing + 1) },
	} {
		e, _ := victim(t, Config{})
		here, there := pair(t)
		done := make(chan error, 1)
		go func() { done <- e.Serve(2, there) }()
		s, err := offer(here, minRing, time.Now().Add(time.Minute))
		require.NoError(t, err)
		scribble(s)
		_, err = here.Write([]byte{0})
		require.NoError(t, err)
		require.ErrorContains(t, result(t, done), want)
		s.Unmap()
	}
}

// TestHostileTarget: answers that fit to no operation lose the connection, and nothing else.
func TestHostileTarget(t *testing.T) {
	for name, answer := range map[string]remote.Answer{
		"a status that does not exist": {Status: 77},
		"a target does not say lost":   {Status: fabric.Lost},
		"too much data":                {Length: 1 << 30},
		"data with a refusal":          {Status: fabric.Denied, Length: 4},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := pair(t)
			e, _ := victim(t, Config{Timeout: time.Hour, Dial: func(context.Context, fabric.NodeID) (net.Conn, error) { return here, nil }})
			done := make(chan error, 1)
			go func() {
				s, err := accept(there, time.Now().Add(time.Minute))
				if err == nil {
					b := answer.Encode()
					l := targetLink(there, s)
					l.out.Put(b[:])
					l.out.Publish()
					err = admit(there)
				}
				done <- err
			}()
			require.Equal(t, fabric.Lost, post(t, e, fabric.Op{Kind: fabric.Read, Peer: 2, Region: 1, Length: 4}).Status)
			require.NoError(t, <-done)
		})
	}
}

// TestSilentPeer: an operation on a peer that takes it and does not answer is lost after a time.
func TestSilentPeer(t *testing.T) {
	here, there := pair(t)
	e, _ := victim(t, Config{Timeout: 50 * time.Millisecond, Dial: func(context.Context, fabric.NodeID) (net.Conn, error) { return here, nil }})
	go func() {
		if _, err := accept(there, time.Now().Add(time.Minute)); err == nil {
			_ = admit(there)
		}
	}()
	require.Equal(t, fabric.Lost, post(t, e, fabric.Op{Token: 5, Peer: 2, Region: 1, Data: []byte{1}}).Status)
}

// TestOffersAreChecked: a target takes only memory that cannot shrink, of the size that the message names.
func TestOffersAreChecked(t *testing.T) {
	memfd := func(size int64, seal int) *os.File {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		file := os.NewFile(uintptr(fd), "test")
		require.NoError(t, file.Truncate(size))
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seal)
		require.NoError(t, err)
		return file
	}
	message := func(ring uint64) string { return magic + string(binary.LittleEndian.AppendUint64(nil, ring)) }
	size := int64(ringsAt + 2*minRing)
	for name, try := range map[string]struct {
		message string
		files   []*os.File
		want    string
	}{
		"not sealed":   {message(minRing), []*os.File{memfd(size, 0)}, "not sealed"},
		"may shrink":   {message(minRing), []*os.File{memfd(size, unix.F_SEAL_GROW|unix.F_SEAL_SEAL)}, "not sealed"},
		"short":        {message(minRing), []*os.File{memfd(size-1, ring.Seals)}, "does not have"},
		"no file":      {message(minRing), nil, "0 files"},
		"two files":    {message(minRing), []*os.File{memfd(size, ring.Seals), memfd(size, ring.Seals)}, "2 files"},
		"no magic":     {strings.Repeat("x", messageSize), []*os.File{memfd(size, ring.Seals)}, "first message"},
		"half":         {magic, []*os.File{memfd(size, ring.Seals)}, "first message"},
		"no power":     {message(5000), []*os.File{memfd(size, ring.Seals)}, "5000"},
		"a huge ring":  {message(1 << 40), []*os.File{memfd(size, ring.Seals)}, "first message"},
		"another file": {message(minRing), []*os.File{os.Stdin}, "not sealed"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := victim(t, Config{})
			here, there := pair(t)
			var fds []int
			for _, f := range try.files {
				fds = append(fds, int(f.Fd()))
			}
			_, _, err := here.WriteMsgUnix([]byte(try.message), unix.UnixRights(fds...), nil)
			require.NoError(t, err)
			require.ErrorContains(t, e.Serve(2, there), try.want)
		})
	}
}

// TestIdentity: certificates name the ends of a connection, and the connection carries a segment after the
// handshake. A stranger is refused.
func TestIdentity(t *testing.T) {
	load := func(ca *identity.CA, name string) *identity.Credentials {
		dir := t.TempDir()
		pairOf, err := ca.Issue(identity.Request{Role: identity.Server, Name: name})
		require.NoError(t, err)
		files := identity.FilesIn(dir, identity.Server, name)
		require.NoError(t, identity.SaveCA(dir, ca, false))
		require.NoError(t, pairOf.Save(files, true))
		c, err := identity.Load(files, nil)
		require.NoError(t, err)
		return c
	}
	ca, err := identity.NewCA("test", identity.CAValidity)
	require.NoError(t, err)
	other, err := identity.NewCA("other", identity.CAValidity)
	require.NoError(t, err)
	server := load(ca, "node-1")
	for name, client := range map[string]*identity.Credentials{"node-2": load(ca, "node-2"), "stranger": load(other, "stranger")} {
		here, there := pair(t)
		e, _ := victim(t, Config{})
		done := make(chan error, 1)
		go func() {
			state, err := Server(t.Context(), there, server.ServerConfig())
			if err != nil {
				there.Close()
				done <- err
				return
			}
			done <- checkPeer(state, "node-2")
			done <- e.Serve(2, there)
		}()
		state, err := Client(t.Context(), here, client.ClientConfig())
		if name == "stranger" {
			require.Error(t, err)
			require.Error(t, <-done)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, checkPeer(state, "node-1"))
		require.NoError(t, <-done)
		s, err := offer(here, minRing, time.Now().Add(time.Minute))
		require.NoError(t, err)
		s.Unmap()
		here.Close()
		require.NoError(t, <-done)
	}
}

func checkPeer(state tls.ConnectionState, name string) error {
	id, err := identity.FromCertificate(state.PeerCertificates[0])
	if err == nil && id.Name != name {
		err = errCut
	}
	return err
}

// TestEarlierConnectionEnds: fabric Q5. The operations of a connection are not executed any more once the
// target has admitted a newer one of the same peer.
func TestEarlierConnectionEnds(t *testing.T) {
	e, _ := victim(t, Config{})
	connect := func() (*link, chan error) {
		here, there := pair(t)
		done := make(chan error, 1)
		go func() { done <- e.Serve(2, there) }()
		s, err := offer(here, minRing, time.Now().Add(time.Minute))
		require.NoError(t, err)
		t.Cleanup(s.Unmap)
		return initiatorLink(here, s), done
	}
	first, ended := connect()
	second, _ := connect()
	write := append(remote.Encode(nil, &fabric.Op{Region: 2, Data: []byte("early")}), "early"...)
	first.out.Put(write)
	first.out.Publish()
	_, _ = first.conn.Write([]byte{0}) // the target may have hung up
	require.NoError(t, result(t, ended))
	reset := remote.Encode(nil, &fabric.Op{Kind: fabric.Reset, Region: 2})
	second.out.Put(append(reset, remote.Encode(nil, &fabric.Op{Kind: fabric.Read, Region: 2, Length: 5})...))
	second.out.Publish()
	_, err := second.conn.Write([]byte{0})
	require.NoError(t, err)
	answers := make([]byte, 2*remote.AnswerSize+5)
	require.Eventually(t, func() bool {
		there, err := second.in.Available()
		return err == nil && there == len(answers)
	}, time.Minute, time.Millisecond)
	second.in.Take(answers)
	require.Equal(t, make([]byte, 5), answers[2*remote.AnswerSize:])
}

// TestBellIsNotMissed: a side that goes to sleep looks once more after it has asked for the bell. The peer
// publishes just before it could see the question.
func TestBellIsNotMissed(t *testing.T) {
	here, _ := pair(t)
	s, file, err := createSegment(minRing)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	t.Cleanup(s.Unmap)
	l := targetLink(here, s)
	found := false
	l.work = func() (bool, error) {
		moved := l.own.Load() != 0 && !found
		found = found || moved
		return moved, nil
	}
	require.NoError(t, l.settle(true))
	require.True(t, found)
	require.NotZero(t, l.own.Load(), "the side sleeps and does not ask for the bell")
}

// TestPatientInitiator: a target sends no bell for the success of a write to an initiator that does not wait
// for it, and one for every other answer.
func TestPatientInitiator(t *testing.T) {
	e, _ := victim(t, Config{})
	here, there := pair(t)
	done := make(chan error, 1)
	go func() { done <- e.Serve(2, there) }()
	s, err := offer(here, minRing, time.Now().Add(time.Minute))
	require.NoError(t, err)
	t.Cleanup(s.Unmap)
	require.NoError(t, here.SetReadDeadline(time.Now().Add(10*time.Second)))
	l := initiatorLink(here, s)
	l.own.Store(wakeForNews)
	send := func(op *fabric.Op, answers int) {
		l.out.Put(append(remote.Encode(nil, op), op.Data...))
		l.out.Publish()
		_, err := here.Write([]byte{0})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			there, err := l.in.Available()
			return err == nil && there == answers*remote.AnswerSize
		}, time.Minute, time.Millisecond)
	}
	send(&fabric.Op{Region: 2, Data: make([]byte, 8)}, 1)
	require.EqualValues(t, wakeForNews, l.own.Load(), "the target has sent a bell")
	send(&fabric.Op{Kind: fabric.Reset, Region: 2}, 2)
	_, err = here.Read(make([]byte, 1))
	require.NoError(t, err)
	l.own.Store(wakeForNews)
	send(&fabric.Op{Region: 1, Data: make([]byte, 8)}, 3) // it has no right
	_, err = here.Read(make([]byte, 1))
	require.NoError(t, err)
	here.Close()
	require.NoError(t, result(t, done))
}
