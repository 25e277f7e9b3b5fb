package disk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/disk"
	"github.com/globalfs/globalfs/internal/posix"
)

// cost returns the resources that the process has used so far: processor time in nanoseconds, and bytes that
// it made dirty.
func cost(b *testing.B) (cpu, written int64) {
	var r unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &r))
	io, err := os.ReadFile("/proc/self/io")
	require.NoError(b, err)
	for line := range strings.Lines(string(io)) {
		if rest, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			_, err := fmt.Sscan(rest, &written)
			require.NoError(b, err)
		}
	}
	return r.Utime.Nano() + r.Stime.Nano(), written
}

// measured reports the processor time of an operation, and the bytes written for each byte of a block.
func measured(b *testing.B, size int, do func()) {
	b.SetBytes(int64(size))
	cpu, written := cost(b)
	do()
	cpuAfter, writtenAfter := cost(b)
	b.ReportMetric(float64(cpuAfter-cpu)/float64(b.N)/1000, "cpu-µs/op")
	b.ReportMetric(float64(writtenAfter-written)/float64(b.N)/float64(size), "written/byte")
}

// summed returns a block that shares data: data that reaches a disk was copied and summed before.
func summed(id block.ID, data []byte) block.Block {
	return block.Block{ID: id, Sum: block.Sum(id, data), Data: data}
}

// BenchmarkPut has one writer, or many writers that share syncs.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10, 1 << 20} {
		for _, noSync := range []bool{false, true} {
			for _, writers := range []int{1, 16} {
				b.Run(fmt.Sprintf("%dKiB/sync=%v/writers=%d", size>>10, !noSync, writers), func(b *testing.B) {
					config := disk.DefaultConfig(b.TempDir())
					config.NoSync = noSync
					s := open(b, config)
					_, data := blocktest.Block(1, size)
					var next atomic.Uint64
					b.SetParallelism(max(writers/2, 1))
					measured(b, size, func() {
						if writers == 1 {
							for i := uint64(0); b.Loop(); i++ {
								require.NoError(b, s.Put(b.Context(), summed(posix.MakeBlockID(1, 1, i), data)))
							}
							return
						}
						b.RunParallel(func(pb *testing.PB) {
							for pb.Next() {
								if err := s.Put(b.Context(), summed(posix.MakeBlockID(1, 1, next.Add(1)), data)); err != nil {
									b.Error(err)
								}
							}
						})
					})
				})
			}
		}
	}
}

// BenchmarkGet reads blocks of a store that is larger than LevelDB's caches, alone and beside a writer with
// synced puts.
func BenchmarkGet(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10} {
		config := disk.DefaultConfig(b.TempDir())
		config.NoSync = true
		s := open(b, config)
		_, data := blocktest.Block(1, size)
		const blocks = 20000
		for i := range uint64(blocks) {
			require.NoError(b, s.Put(b.Context(), summed(posix.MakeBlockID(1, 1, i), data)))
		}
		require.NoError(b, s.Close())
		config.NoSync = false
		s = open(b, config)
		for _, readers := range []int{1, 8} {
			for _, writing := range []bool{false, true} {
				b.Run(fmt.Sprintf("%dKiB/readers=%d/writing=%v", size>>10, readers, writing), func(b *testing.B) {
					stop := func() {}
					if writing {
						stop = keepPutting(b, s)
					}
					defer stop()
					b.SetParallelism(max(readers/2, 1))
					var next atomic.Uint64
					get := func(buffer []byte) {
						if _, err := s.Get(b.Context(), posix.MakeBlockID(1, 1, next.Add(7919)%blocks), buffer); err != nil {
							b.Error(err)
						}
					}
					measured(b, size, func() {
						if readers == 1 {
							buffer := make([]byte, 0, size)
							for b.Loop() {
								get(buffer)
							}
							return
						}
						b.RunParallel(func(pb *testing.PB) {
							buffer := make([]byte, 0, size)
							for pb.Next() {
								get(buffer)
							}
						})
					})
				})
			}
		}
	}
}

// keepPutting puts small blocks until the call of the returned function.
func keepPutting(b *testing.B, s block.Store) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, data := blocktest.Block(2, 1000)
		for i := uint64(0); ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := s.Put(b.Context(), summed(posix.MakeBlockID(2, 2, i), data)); err != nil {
				b.Error(err)
			}
			if err := s.Delete(b.Context(), []block.ID{posix.MakeBlockID(2, 2, i)}); err != nil {
				b.Error(err)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// BenchmarkOpen opens a store of a million blocks, with its index and without.
func BenchmarkOpen(b *testing.B) {
	config := disk.DefaultConfig(b.TempDir())
	config.NoSync = true
	s := open(b, config)
	_, data := blocktest.Block(1, 1<<10)
	const blocks, writers = 1 << 20, 64
	var putting sync.WaitGroup
	for w := range writers {
		putting.Go(func() {
			for i := w; i < blocks; i += writers {
				if err := s.Put(b.Context(), summed(posix.MakeBlockID(1, 1, uint64(i)), data)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	putting.Wait()
	require.NoError(b, s.Close())
	for _, lost := range []bool{false, true} {
		b.Run(fmt.Sprintf("lost=%v", lost), func(b *testing.B) {
			for b.Loop() {
				if lost {
					require.NoError(b, os.RemoveAll(filepath.Join(config.Dir, "index")))
				}
				s := open(b, config)
				got, err := s.Stats()
				require.NoError(b, err)
				require.EqualValues(b, blocks, got.Blocks)
				require.NoError(b, s.Close())
			}
		})
	}
}
