package mount

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// ordered returns the number of commands that do makes the cluster order.
func (m *mounted) ordered(do func()) int {
	before := m.Ordered(0) + m.Ordered(1)
	do()
	return m.Ordered(0) + m.Ordered(1) - before
}

// Small writes cost as many commands and blocks as large ones, and content and size are there at each moment.
func TestSmallWritesAreOrderedTogether(t *testing.T) {
	m := mountHere(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // 3.2 MB
	f, err := os.Create(m.path("f"))
	require.NoError(t, err)
	n := m.ordered(func() {
		for part := want; len(part) > 0; part = part[min(len(part), 8000):] {
			_, err := f.Write(part[:min(len(part), 8000)])
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
	})
	require.Less(t, n, 100, "400 writes")
	require.True(t, string(want) == m.read(t, "f"))
	require.Less(t, len(m.Blocks.IDs()), 50)

	log, err := os.OpenFile(m.path("log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	require.NoError(t, err)
	defer log.Close()
	var text string
	for i := range 50 {
		line := fmt.Sprintf("line %d\n", i)
		_, err := log.WriteString(line)
		require.NoError(t, err)
		text += line
		switch i % 5 {
		case 0:
			require.EqualValues(t, len(text), m.stat(t, "log").Size)
		case 1:
			require.Equal(t, text, m.read(t, "log"))
		case 2:
			require.NoError(t, unix.Ftruncate(int(log.Fd()), int64(len(text)-3)))
			text = text[:len(text)-3]
		case 3:
			require.NoError(t, os.Rename(m.path("log"), m.path("log2")))
			require.NoError(t, os.Link(m.path("log2"), m.path("log")))
			require.NoError(t, os.Remove(m.path("log2")))
		}
	}
	names, err := os.ReadDir(m.dir)
	require.NoError(t, err)
	for _, name := range names {
		if info, err := name.Info(); name.Name() == "log" {
			require.NoError(t, err)
			require.EqualValues(t, len(text), info.Size())
		}
	}
	require.Equal(t, text, m.read(t, "log"))
}

// All mounts see the content of a closed file at once. They see the content of an open file after a short
// time.
func TestWrittenContentReachesOtherMounts(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := mountOf(t, n), mountOf(t, n)
	f, err := os.Create(a.path("f"))
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString("open")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		b.client.Observe(a.client.Proofs())
		content, err := os.ReadFile(b.path("f"))
		return err == nil && string(content) == "open"
	}, time.Minute, 10*time.Millisecond)
	_, err = f.WriteString(", closed")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	b.client.Observe(a.client.Proofs())
	require.Equal(t, "open, closed", b.read(t, "f"))

	// A token covers the content of open files, too.
	f, err = os.OpenFile(a.path("f"), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString(", told")
	require.NoError(t, err)
	token := make([]byte, 4096)
	length, err := unix.Getxattr(a.dir, XattrToken, token)
	require.NoError(t, err)
	require.NoError(t, b.client.Wait(t.Context(), string(token[:length])))
	require.Equal(t, "open, closed, told", b.read(t, "f"))
}

// Two mounts append to a file, and one of them truncates it: no append is torn.
func TestAppendsAndTruncatesOfTwoMounts(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := mountOf(t, n), mountOf(t, n)
	a.write(t, "log", "")
	b.client.Observe(a.client.Proofs())
	line := func(m *mounted, i int) string { return fmt.Sprintf("%s %6d\n", m.dir[len(m.dir)-4:], i) }
	length := len(line(a, 0))
	for _, m := range []*mounted{a, b} {
		f, err := os.OpenFile(m.path("log"), os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		defer f.Close()
		for i := range 200 {
			_, err := f.WriteString(line(m, i))
			require.NoError(t, err)
			if m == b && i == 100 {
				require.NoError(t, unix.Truncate(m.path("log"), int64(length)))
			}
		}
		require.NoError(t, f.Close())
	}
	a.client.Observe(b.client.Proofs())
	content := a.read(t, "log")
	require.Zero(t, len(content)%length)
	require.Equal(t, line(a, 0), content[:length])
	require.Equal(t, line(b, 199), content[len(content)-length:])
	require.Len(t, content, 100*length, "one line of a and the last 99 of b")

	a.write(t, "both", "")
	b.client.Observe(a.client.Proofs())
	var all sync.WaitGroup
	for _, m := range []*mounted{a, b} {
		all.Go(func() {
			f, err := os.OpenFile(m.path("both"), os.O_WRONLY|os.O_APPEND, 0)
			assert.NoError(t, err)
			for i := range 200 {
				_, err := f.WriteString(line(m, i))
				assert.NoError(t, err)
			}
			assert.NoError(t, f.Close())
		})
	}
	all.Wait()
	a.client.Observe(b.client.Proofs())
	var want []string
	for i := range 200 {
		want = append(want, line(a, i), line(b, i))
	}
	require.ElementsMatch(t, want, slices.Collect(strings.Lines(a.read(t, "both"))))
}

// Each descriptor reports lost content once, and then each write reports its own outcome.
func TestLostContentIsToldAtClose(t *testing.T) {
	m := mountHere(t)
	open := func() *os.File {
		f, err := os.OpenFile(m.path("f"), os.O_CREATE|os.O_RDWR, 0o644)
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	f, g, h := open(), open(), open()
	_, err := f.WriteString("small")
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	m.Blocks.Fail(block.ErrNoSpace)
	_, err = f.WriteAt(make([]byte, 3<<20), 1<<20)
	require.NoError(t, err)
	require.ErrorIs(t, f.Sync(), syscall.ENOSPC)
	require.NoError(t, f.Sync(), "it was told")
	require.ErrorIs(t, g.Close(), syscall.ENOSPC)
	_, err = h.WriteAt(make([]byte, 5000), 1<<20)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, h.Close(), "write has told it")
	_, err = f.WriteAt(make([]byte, 5000), 1<<20)
	require.ErrorIs(t, err, syscall.ENOSPC, "there is no space")
	require.EqualValues(t, 5, m.stat(t, "f").Size)
	require.Equal(t, "small", m.read(t, "f"))
	m.Blocks.Fail(nil)
	_, err = f.WriteAt(make([]byte, 5000), 1<<20)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.EqualValues(t, 1<<20+5000, m.stat(t, "f").Size)
}

// With Sync each write is ordered before it is answered.
func TestSyncMount(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	m := mountAs(t, n, func(cfg *Config) { cfg.Sync = true })
	f, err := os.Create(m.path("f"))
	require.NoError(t, err)
	defer f.Close()
	require.GreaterOrEqual(t, m.ordered(func() {
		for range 10 {
			_, err := f.WriteString("x")
			require.NoError(t, err)
		}
	}), 10)
	m.Blocks.Fail(block.ErrNoSpace)
	defer m.Blocks.Fail(nil)
	_, err = f.WriteAt(make([]byte, 1<<20), 10)
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// A handover orders the written content before: the next process does not have it.
func TestHandoverOrdersWhatWasWritten(t *testing.T) {
	m := mountHere(t)
	f, err := os.Create(m.path("f"))
	require.NoError(t, err)
	defer f.Close()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	_, err = f.WriteString("written")
	require.NoError(t, err)
	handed, err := m.mount.Handover(t.Context())
	require.NoError(t, err)
	other := m.Client(t, "us-west-2")
	other.Observe(m.client.Proofs())
	content := make([]byte, 100)
	read, err := other.View(t.Context(), inodeOf(&st), content, 0, 0)
	require.NoError(t, err)
	require.Equal(t, "written", string(read))
	require.NoError(t, handed.Close())
	require.NoError(t, m.mount.TakeBack(false))
	_, err = f.WriteString(", and more")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, "written, and more", m.read(t, "f"))
}

func inodeOf(st *unix.Stat_t) posix.Ino { return posix.Ino(st.Ino) }

// Attributes of a new file that its owner sets before close are ordered with its content, as tar and cp -p
// set them.
func TestAttributesOfANewFileAreOrderedAtClose(t *testing.T) {
	m := mountHere(t)
	old := time.Unix(1_000_000_000, 5)
	m.write(t, "first", "") // the session is there
	without := m.ordered(func() { m.write(t, "plain", string(make([]byte, 30_000))) })
	with := m.ordered(func() {
		f, err := os.OpenFile(m.path("f"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		for range 3 {
			_, err = f.Write(bytes.Repeat([]byte("x"), 10_000))
			require.NoError(t, err)
		}
		require.NoError(t, unix.Futimes(int(f.Fd()), []unix.Timeval{unix.NsecToTimeval(old.UnixNano()), unix.NsecToTimeval(old.UnixNano())}))
		require.NoError(t, f.Chown(os.Getuid(), os.Getgid()))
		require.NoError(t, f.Chmod(0o751))
		require.NoError(t, f.Close())
	})
	require.LessOrEqual(t, with, without+1, "5 more without")
	other := m.Client(t, "us-west-2")
	other.Observe(m.client.Proofs())
	st := m.stat(t, "f")
	a, err := other.GetAttr(t.Context(), inodeOf(&st))
	require.NoError(t, err)
	require.EqualValues(t, posix.TypeRegular|0o751, a.Mode)
	require.EqualValues(t, 30_000, a.Size)
	require.Equal(t, old.Unix(), a.Mtime.Std().Unix())
	require.Equal(t, old.Unix(), st.Mtim.Sec)

	// Other changes in between are visible, and the order stays.
	f, err := os.OpenFile(m.path("g"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString("content")
	require.NoError(t, err)
	require.NoError(t, f.Chmod(0o640))
	require.NoError(t, os.Remove(m.path("g")))
	var fst unix.Stat_t
	require.NoError(t, f.Chmod(0o600))
	require.NoError(t, unix.Fstat(int(f.Fd()), &fst))
	require.Zero(t, fst.Nlink)
	require.EqualValues(t, 0o600, fst.Mode&0o777)
	before := fst.Mtim
	_, err = f.WriteString(", more")
	require.NoError(t, err)
	require.NoError(t, unix.Fstat(int(f.Fd()), &fst))
	require.EqualValues(t, 13, fst.Size)
	require.GreaterOrEqual(t, fst.Mtim.Nano(), before.Nano())
}

// Content for a partition that cannot be reached is not in the way of a rename in another one.
func TestRenameDoesNotWaitForAnotherPartition(t *testing.T) {
	m := mountHere(t)
	far, err := os.Create(m.path("us-east-1/far"))
	require.NoError(t, err)
	defer far.Close()
	m.write(t, "us-west-2/near", "x")
	cut := m.Processes(2, "us-east-1")
	require.NotEmpty(t, cut)
	m.Fail(clienttest.Silent, cut...)
	_, err = far.WriteString("content")
	require.NoError(t, err)
	require.NoError(t, os.Rename(m.path("us-west-2/near"), m.path("us-west-2/renamed")))
	m.Fail(clienttest.None, cut...)
	require.NoError(t, far.Sync(), "it did not wait until the content was lost")
	require.Equal(t, "content", m.read(t, "us-east-1/far"))
}
