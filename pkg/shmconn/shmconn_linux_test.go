package shmconn

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/pkg/fabric/ring"
	"github.com/globalfs/globalfs/test/bubble"
)

// sockets makes both ends of a Unix connection.
func sockets(t *testing.T) (a, b *net.UnixConn) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	x, err := net.Dial("unix", path)
	require.NoError(t, err)
	y, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { x.Close(); y.Close() })
	return x.(*net.UnixConn), y.(*net.UnixConn)
}

func soon() time.Time { return time.Now().Add(10 * time.Second) }

// shared makes a connection over sockets.
func shared(t *testing.T) (a, b *Conn) {
	x, y := sockets(t)
	offered := make(chan *Conn, 1)
	go func() {
		c, err := Offer(x, soon())
		if err != nil {
			t.Error(err)
		}
		offered <- c
	}()
	b, err := Accept(y, soon())
	require.NoError(t, err)
	a = <-offered
	t.Cleanup(func() { require.NoError(t, errors.Join(a.Close(), b.Close())) })
	return a, b
}

// both runs a test over sockets, and in a bubble within the process.
func both(t *testing.T, test func(t *testing.T, a, b *Conn)) {
	t.Run("Sockets", func(t *testing.T) {
		a, b := shared(t)
		test(t, a, b)
	})
	t.Run("Pipe", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			a, b := Pipe()
			test(t, a, b)
			require.NoError(t, errors.Join(a.Close(), b.Close()))
		})
	})
}

// Bytes arrive as they were sent, in both directions at once, for all sizes of reads and writes.
func TestBytesArrive(t *testing.T) {
	both(t, func(t *testing.T, a, b *Conn) {
		random := mathrand.New(mathrand.NewPCG(1, 2))
		sent := make([]byte, 5*ringSize+77)
		_, _ = rand.Read(sent)
		var all sync.WaitGroup
		for _, ends := range [][2]*Conn{{a, b}, {b, a}} {
			var sizes, pieces []int
			for range 4000 {
				sizes, pieces = append(sizes, 1+random.IntN(40_000)), append(pieces, 1+random.IntN(70_000))
			}
			all.Go(func() {
				left := sent
				for i := 0; len(left) > 0; i++ {
					n, err := ends[0].Write(left[:min(len(left), sizes[i%len(sizes)])])
					if err != nil {
						t.Error(err)
						return
					}
					left = left[n:]
				}
			})
			all.Go(func() {
				var got []byte
				b := make([]byte, 70_000)
				for i := 0; len(got) < len(sent); i++ {
					n, err := ends[1].Read(b[:pieces[i%len(pieces)]])
					if err != nil {
						t.Error(err)
						return
					}
					got = append(got, b[:n]...)
				}
				if !bytes.Equal(got, sent) {
					t.Error("other bytes came")
				}
			})
		}
		all.Wait()
	})
}

// Questions and answers of a few bytes go on for long: no bell is missed, no socket is ever full of bells.
func TestNoBellIsMissed(t *testing.T) {
	both(t, func(t *testing.T, a, b *Conn) {
		const rounds = 20_000
		require.NoError(t, a.SetDeadline(time.Now().Add(2*time.Minute)))
		done := make(chan error, 1)
		go func() {
			_, err := io.CopyN(b, b, rounds)
			done <- err
		}()
		var one [1]byte
		for i := range rounds {
			one[0] = byte(i)
			_, err := a.Write(one[:])
			require.NoError(t, err)
			_, err = io.ReadFull(a, one[:])
			require.NoError(t, err)
			require.Equal(t, byte(i), one[0])
		}
		require.NoError(t, <-done)
	})
}

// Read returns the bytes that were written before the end of the connection, and then an error.
func TestTheEnd(t *testing.T) {
	both(t, func(t *testing.T, a, b *Conn) {
		_, err := a.Write([]byte("last words"))
		require.NoError(t, err)
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, "last words", string(got))
		require.Eventually(t, func() bool { _, err = b.Write([]byte("x")); return errors.Is(err, syscall.EPIPE) }, 10*time.Second, time.Millisecond)
		_, err = a.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// The end of either side ends the waits of both: of a reader without bytes, of a writer without room.
func TestTheEndWakes(t *testing.T) {
	for _, far := range []bool{false, true} {
		both(t, func(t *testing.T, a, b *Conn) {
			results := make(chan error, 2)
			go func() { _, err := a.Read(make([]byte, 1)); results <- err }()
			go func() { _, err := a.Write(make([]byte, ringSize+1)); results <- err }()
			require.Eventually(t, a.wanting.Load, 10*time.Second, time.Millisecond)
			if far {
				require.NoError(t, b.Close())
			} else {
				require.NoError(t, a.Close())
			}
			for range 2 {
				err := <-results
				require.True(t, errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE), "%v", err)
			}
		})
	}
}

// Deadlines end waits, also if they are set while the waits are under way.
func TestDeadlines(t *testing.T) {
	both(t, func(t *testing.T, a, b *Conn) {
		results := make(chan error, 2)
		go func() { _, err := a.Read(make([]byte, 1)); results <- err }()
		go func() { _, err := a.Write(make([]byte, ringSize+1)); results <- err }()
		require.Eventually(t, a.wanting.Load, 10*time.Second, time.Millisecond)
		require.NoError(t, a.SetDeadline(time.Now().Add(10*time.Millisecond)))
		for range 2 {
			require.ErrorIs(t, <-results, os.ErrDeadlineExceeded)
		}
		require.NoError(t, a.SetDeadline(time.Time{}))
		_, err := b.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(a, make([]byte, 1))
		require.NoError(t, err)
	})
}

// TryWrite takes the bytes that fit.
func TestTryWrite(t *testing.T) {
	both(t, func(t *testing.T, a, b *Conn) {
		n, err := a.TryWrite(make([]byte, ringSize+5))
		require.NoError(t, err)
		require.Equal(t, ringSize, n)
		n, err = a.TryWrite([]byte("x"))
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// A peer that writes anything into the memory harms only the connection, which carries wrong bytes or ends.
func TestScribbler(t *testing.T) {
	random := mathrand.New(mathrand.NewPCG(3, 4))
	ended := 0
	for range 40 {
		x, y := sockets(t)
		offered := make(chan *Conn, 1)
		go func() {
			c, err := Offer(x, soon())
			if err != nil {
				t.Error(err)
			}
			offered <- c
		}()
		files, err := receive(y)
		require.NoError(t, err)
		m, err := ring.Open(files[0], memorySize)
		require.NoError(t, err)
		victim := <-offered
		bell, err := newSocketBell(y, seldom)
		require.NoError(t, err)
		results := make(chan error, 2)
		go func() { _, err := io.Copy(io.Discard, victim); results <- err }()
		go func() {
			var err error
			for err == nil {
				_, err = victim.Write(make([]byte, 10_000))
			}
			results <- err
		}()
		for range 500 {
			at := random.IntN(memorySize/8) * 8
			if random.IntN(2) == 0 {
				at = random.IntN(2*directionSize/128) * 128 // a cursor or a flag
			}
			m.Word(at).Store(random.Uint64N(1<<random.IntN(20) + 1))
			if random.IntN(10) == 0 { // a socket full of bells wakes nobody
				bell.ring()
			}
		}
		m.Word(headWord + directionSize).Store(1 << 60)
		m.Word(tailWord).Store(1 << 60)
		m.Word(headWord).Store(1 << 60)
		m.Word(tailWord + directionSize).Store(1 << 60)
		bell.ring()
		if errors.Is(<-results, ring.ErrCursor) {
			ended++
		}
		require.NoError(t, victim.Close())
		<-results
		m.Unmap()
		for _, f := range files {
			require.NoError(t, f.Close())
		}
	}
	require.Equal(t, 40, ended, "each connection ends")
}

// Only sealed memory of the right size beside a Unix socket is accepted.
func TestOffersAreChecked(t *testing.T) {
	memory := func(size int64, seals int) *os.File {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		file := os.NewFile(uintptr(fd), "test")
		t.Cleanup(func() { file.Close() })
		require.NoError(t, file.Truncate(size))
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals)
		require.NoError(t, err)
		return file
	}
	near, far, err := socketPair()
	require.NoError(t, err)
	defer near.Close()
	defer far.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	listener, err := tcp.(*net.TCPListener).File()
	require.NoError(t, err)
	defer listener.Close()
	good := memory(memorySize, ring.Seals)
	for name, c := range map[string]struct {
		message string
		files   []*os.File
		says    string
	}{
		"nothing":        {"x", nil, "1 bytes and 0 files"},
		"no memory":      {magic, []*os.File{far}, "1 files"},
		"three files":    {magic, []*os.File{good, far, far}, "3 files"},
		"other version":  {"globalfs shmconn 9\n", []*os.File{good, far}, "another version"},
		"may shrink":     {magic, []*os.File{memory(memorySize, unix.F_SEAL_GROW|unix.F_SEAL_SEAL), far}, "not sealed"},
		"short":          {magic, []*os.File{memory(memorySize-1, ring.Seals), far}, "does not have"},
		"the other way":  {magic, []*os.File{far, good}, "not sealed"},
		"no socket":      {magic, []*os.File{good, good}, "no Unix socket"},
		"another socket": {magic, []*os.File{good, listener}, "no Unix socket"},
	} {
		t.Run(name, func(t *testing.T) {
			x, y := sockets(t)
			var fds []int
			for _, f := range c.files {
				fds = append(fds, int(f.Fd()))
			}
			_, _, err := x.WriteMsgUnix([]byte(c.message), unix.UnixRights(fds...), nil)
			require.NoError(t, err)
			_, err = Accept(y, soon())
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestUser(t *testing.T) {
	a, _ := sockets(t)
	user, err := User(a)
	require.NoError(t, err)
	require.Equal(t, uint32(os.Geteuid()), user)
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{64, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x, y := Pipe()
			defer x.Close()
			go func() { _, _ = io.Copy(y, y) }()
			buffer := make([]byte, size)
			for b.Loop() {
				_, _ = x.Write(buffer)
				_, _ = io.ReadFull(x, buffer)
			}
		})
	}
}

// A peer that rings without end ends the connection: otherwise a reader of bells would never return, and
// Close waits for it.
func TestEndlessBellsEndTheConnection(t *testing.T) {
	for bells, ends := range map[int]bool{0: false, 3: false, mostBells: false, mostBells + 1: true} {
		near, far := sockets(t)
		_, err := far.Write(make([]byte, bells))
		require.NoError(t, err)
		raw, err := near.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) { require.Equal(t, ends, drain(int(fd)), "%d bells", bells) }))
	}
	near, far := sockets(t)
	require.NoError(t, far.Close())
	raw, err := near.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { require.True(t, drain(int(fd))) }))
}
