package sim

import (
	"fmt"
	"io"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// FNV-1a over whole numbers instead of bytes: the hash only has to distinguish runs.
const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

// trace computes a digest of the events, and writes them if there is a writer.
type trace struct {
	to     io.Writer
	hash   uint64
	events uint64
}

// add adds one event of a process, with numbers that distinguish it from other events.
func (t *trace) add(at time.Duration, what string, p multicast.ProcessID, details ...uint64) {
	t.events++
	t.mix(uint64(at))
	for i := range len(what) {
		t.mix(uint64(what[i]))
	}
	t.mix(uint64(p))
	for _, d := range details {
		t.mix(d)
	}
	if t.to != nil {
		fmt.Fprintf(t.to, "%12v %4d %s", at, p, what)
		for _, d := range details {
			fmt.Fprintf(t.to, " %d", d)
		}
		fmt.Fprintln(t.to)
	}
}

func (t *trace) mix(v uint64) { t.hash = (t.hash ^ v) * prime }

// digest returns a hash of b.
func digest(b []byte) uint64 {
	h := uint64(offset)
	for _, c := range b {
		h = (h ^ uint64(c)) * prime
	}
	return h
}
