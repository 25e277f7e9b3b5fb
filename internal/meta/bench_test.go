package meta_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// batch is how many updates the benchmarks commit at a time, as a busy replica does.
const batch = 64

// onBoth runs a benchmark on both stores.
func onBoth(b *testing.B, bench func(b *testing.B, keys *kv.Store, m *meta.Machine)) {
	for _, store := range []string{"memory", "disk"} {
		b.Run(store, func(b *testing.B) {
			keys := kv.NewMemory()
			if store == "disk" {
				var err error
				keys, err = kv.Open(b.TempDir(), kv.Options{})
				require.NoError(b, err)
			}
			m, err := meta.New(keys, meta.Config{})
			require.NoError(b, err)
			b.ReportAllocs()
			bench(b, keys, m)
			require.NoError(b, keys.Close())
		})
	}
}

func mustApply(b *testing.B, keys *kv.Store, m *meta.Machine, i int, c *meta.Command) posix.Ino {
	r := m.Apply(c, uint64(i+1))
	if r.Code != posix.OK {
		b.Fatalf("%+v: %v", c, r.Code)
	}
	if i%batch == batch-1 {
		require.NoError(b, keys.Commit(false))
	}
	return r.Attr.Ino
}

// makeFiles fills a directory.
func makeFiles(b *testing.B, keys *kv.Store, m *meta.Machine, count int) {
	for i := range count {
		mustApply(b, keys, m, i, &meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: fmt.Sprintf("file-%d", i), Mode: 0o644, Flags: meta.Exclusive, Time: 1})
	}
	require.NoError(b, keys.Commit(false))
}

func BenchmarkCreate(b *testing.B) {
	onBoth(b, func(b *testing.B, keys *kv.Store, m *meta.Machine) {
		for i := 0; b.Loop(); i++ {
			mustApply(b, keys, m, i, &meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: fmt.Sprintf("file-%d", i), Mode: 0o644, Flags: meta.Exclusive, Time: posix.Time(i)})
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	const files = 20000
	onBoth(b, func(b *testing.B, keys *kv.Store, m *meta.Machine) {
		makeFiles(b, keys, m, files)
		for i := 0; b.Loop(); i++ {
			r := m.Query(&meta.Command{Op: meta.OpLookup, Ino: posix.Root, Name: fmt.Sprintf("file-%d", i*7919%files)})
			if r.Code != posix.OK {
				b.Fatal(r.Code)
			}
		}
	})
}

func BenchmarkWrite1K(b *testing.B) {
	for _, flags := range []uint32{meta.Append, 0} {
		b.Run(map[uint32]string{meta.Append: "append", 0: "overwrite"}[flags], func(b *testing.B) {
			onBoth(b, func(b *testing.B, keys *kv.Store, m *meta.Machine) {
				ino := mustApply(b, keys, m, 0, &meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "file", Mode: 0o644})
				data := bytes.Repeat([]byte("w"), 1024)
				for i := 0; b.Loop(); i++ {
					mustApply(b, keys, m, i, &meta.Command{Op: meta.OpWrite, Ino: ino, Data: data, Length: 1024, Offset: uint64(i%1000) * 1024, Flags: flags})
				}
			})
		})
	}
}

func BenchmarkWriteBlock(b *testing.B) {
	onBoth(b, func(b *testing.B, keys *kv.Store, m *meta.Machine) {
		ino := mustApply(b, keys, m, 0, &meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "file", Mode: 0o644})
		for i := 0; b.Loop(); i++ {
			k := meta.Block{ID: posix.MakeBlockID(0, 1, uint64(i)), Length: 128 << 10}
			mustApply(b, keys, m, i, &meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{k}, Length: 128 << 10, Flags: meta.Append, Session: 1})
		}
	})
}

// BenchmarkReadDir reads 100 entries from the middle of a large directory.
func BenchmarkReadDir(b *testing.B) {
	const files = 20000
	onBoth(b, func(b *testing.B, keys *kv.Store, m *meta.Machine) {
		makeFiles(b, keys, m, files)
		for b.Loop() {
			r := m.Query(&meta.Command{Op: meta.OpReadDir, Ino: posix.Root, Offset: files / 2, Length: 100})
			if len(r.Entries) != 100 {
				b.Fatal(len(r.Entries))
			}
		}
	})
}
