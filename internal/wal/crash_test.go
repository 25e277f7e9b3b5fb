package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// disk is a directory in which files lose unsynced bytes at a crash.
type disk struct {
	dir    string
	random *rand.Rand
	left   int               // operations until fault happens
	fault  error             // of all operations from then on
	synced map[string][]byte // content
	marks  [][]byte          // that were written
	after  func()            // is called at the fault, before any operation fails
}

func (d *disk) step() error {
	if m, err := os.ReadFile(filepath.Join(d.dir, markName)); err == nil {
		d.marks = append(d.marks, m)
	}
	if d.left--; d.left == 0 && d.after != nil {
		d.after()
	}
	if d.left <= 0 {
		return d.fault
	}
	return nil
}

func (d *disk) open(path string, flag int) (file, error) {
	f, err := openFile(path, flag)
	if err != nil {
		return nil, err
	}
	return &lossyFile{d, path, f}, nil
}

// lossyFile is a file on a disk. A write that fails has written a part.
type lossyFile struct {
	disk *disk
	path string
	file
}

func (f *lossyFile) WriteAt(b []byte, at int64) (int, error) {
	if f.disk.left == 1 {
		part := f.disk.random.IntN(len(b) + 1)
		if _, err := f.file.WriteAt(b[:part], at); err != nil {
			return 0, err
		}
	}
	if err := f.disk.step(); err != nil {
		return 0, err
	}
	return f.file.WriteAt(b, at)
}

func (f *lossyFile) SyncData() error {
	if err := f.disk.step(); err != nil {
		return err
	}
	content, err := os.ReadFile(f.path)
	f.disk.synced[filepath.Base(f.path)] = content
	return err
}

// image copies the directory as a power loss may leave it into another one.
func (d *disk) image(t *testing.T, into string) {
	for _, name := range segmentsOf(t, d.dir) {
		content, err := os.ReadFile(filepath.Join(d.dir, name))
		require.NoError(t, err)
		synced, known := d.synced[name]
		if !known && d.random.IntN(3) == 0 {
			continue // its directory entry is lost
		}
		same := 0
		for same < min(len(synced), len(content)) && synced[same] == content[same] {
			same++
		}
		keep := same + d.random.IntN(len(content)-same+1)
		lost := slices.Clone(synced[min(keep, len(synced)):]) // the old bytes, then zeros or nothing
		if n := len(content) - keep - len(lost); n > 0 && d.random.IntN(2) == 0 {
			lost = append(lost, make([]byte, n)...)
		}
		content = append(content[:keep], lost...)
		require.NoError(t, os.WriteFile(filepath.Join(into, name), content, 0o600))
	}
	// The kernel has written one of the marks, or none.
	if n := d.random.IntN(len(d.marks) + 1); n < len(d.marks) {
		require.NoError(t, os.WriteFile(filepath.Join(into, markName), d.marks[n], 0o600))
	}
}

// history is the record of a workload on a log.
type history struct {
	acknowledged []string
	underway     []string // the content of the log if the last batch counts, too
}

// work appends random batches until one fails.
func work(r *rand.Rand, l *Log, batches int) (h history, err error) {
	for i := range batches {
		var b [][]byte
		var added []string
		for j := range 1 + r.IntN(3) {
			record := fmt.Sprintf("%d.%d:%s", i, j, make([]byte, r.IntN(60)))
			b = append(b, []byte(record))
			added = append(added, record)
		}
		checkpoint := r.IntN(4) == 0
		h.underway = append(h.acknowledged[:len(h.acknowledged):len(h.acknowledged)], added...)
		if checkpoint {
			h.underway = added
		}
		if err := l.Append(b, checkpoint); err != nil {
			return h, err
		}
		h.acknowledged = h.underway
	}
	return h, nil
}

// TestPowerLoss crashes at each operation, and loses unsynced bytes.
func TestPowerLoss(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for crash := 1; crash < 60; crash++ {
		crashed := t.TempDir()
		d := &disk{dir: t.TempDir(), random: r, left: crash, fault: errors.New("power loss"), synced: map[string][]byte{}}
		d.after = func() { d.image(t, crashed) }
		l, err := Open(d.dir, Options{open: d.open, Ahead: 500 * (crash % 2)})
		var h history
		if err == nil {
			h, err = work(r, l, 40)
			require.NoError(t, l.Close())
		}
		require.ErrorIs(t, err, d.fault)
		l, err = Open(crashed, Options{})
		require.NoError(t, err)
		got := replay(t, l)
		require.Contains(t, [][]string{h.acknowledged, h.underway}, got, "crash at operation %d", crash)
		require.NoError(t, l.Append(batch("goes on"), false))
		require.NoError(t, l.Close())
		again, cut := reopened(t, crashed)
		require.Equal(t, append(got, "goes on"), again)
		require.Zero(t, cut)
	}
}

// TestSyncOnDemand: with OS, a power loss leaves at least the batches that were appended before the last
// Sync.
func TestSyncOnDemand(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		d := &disk{dir: t.TempDir(), random: r, left: 1000, synced: map[string][]byte{}}
		l, err := Open(d.dir, Options{Durability: OS, open: d.open})
		require.NoError(t, err)
		require.NoError(t, l.Append(batch("one"), false))
		require.NoError(t, l.Append(batch("two"), false))
		before := d.left
		require.NoError(t, l.Sync())
		require.NoError(t, l.Sync(), "nothing is left to do")
		require.Equal(t, before-1, d.left)
		require.NoError(t, l.Append(batch("three"), false))
		crashed := t.TempDir()
		d.image(t, crashed)
		require.NoError(t, l.Close())
		got, _ := reopened(t, crashed)
		require.Contains(t, [][]string{{"one", "two"}, {"one", "two", "three"}}, got)
	}
}

// TestSyncFailure: after an error the log appends nothing more.
func TestSyncFailure(t *testing.T) {
	d := &disk{dir: t.TempDir(), random: rand.New(rand.NewPCG(1, 1)), left: 1000, fault: syscall.EIO, synced: map[string][]byte{}}
	l, err := Open(d.dir, Options{Durability: OS, open: d.open})
	require.NoError(t, err)
	require.NoError(t, l.Append(batch("one"), false))
	d.left = 1
	require.ErrorIs(t, l.Sync(), syscall.EIO)
	d.left = 1000
	require.ErrorIs(t, l.Append(batch("two"), false), syscall.EIO)
	require.ErrorIs(t, l.Sync(), syscall.EIO)
	require.NoError(t, l.Close())
}

// TestReplayedIsDurable: batches that a dead process has written and not synced are safe once they are
// replayed.
func TestReplayedIsDurable(t *testing.T) {
	content, _ := written(t, false, batch("one"), batch("two"))
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		d := &disk{dir: planted(t, content), random: r, left: 1000, synced: map[string][]byte{}}
		l, err := Open(d.dir, Options{open: d.open})
		require.NoError(t, err)
		require.Equal(t, []string{"one", "two"}, replay(t, l))
		crashed := t.TempDir()
		d.image(t, crashed)
		require.NoError(t, l.Close())
		got, _ := reopened(t, crashed)
		require.Equal(t, []string{"one", "two"}, got)
	}
}

// TestDiskFull: the log holds exactly the acknowledged batches, and takes no more until it is opened again.
func TestDiskFull(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for full := 3; full < 60; full++ {
		d := &disk{dir: t.TempDir(), random: r, left: full, fault: syscall.ENOSPC, synced: map[string][]byte{}}
		l, err := Open(d.dir, Options{open: d.open})
		require.NoError(t, err)
		h, err := work(r, l, 40)
		require.ErrorIs(t, err, syscall.ENOSPC)
		d.left = 1000 // there is space again
		require.ErrorIs(t, l.Append(batch("x"), false), syscall.ENOSPC)
		require.NoError(t, l.Close())
		got, cut := reopened(t, d.dir)
		require.Equal(t, h.acknowledged, got, "full at operation %d", full)
		require.Zero(t, cut)
	}
}
