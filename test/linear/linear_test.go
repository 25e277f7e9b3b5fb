package linear

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// history returns a sequence of operations. Each ends before the next one begins, unless together is set.
func history(together bool, ops ...Op) []Op {
	for i := range ops {
		ops[i].Call, ops[i].Return = time.Duration(10*i), time.Duration(10*i+5)
		if together {
			ops[i].Call = 0
		}
	}
	return ops
}

func TestCheck(t *testing.T) {
	one := []Op{{Kind: Write, Value: 7}, {Kind: Read, Value: 7, Worker: 1}}
	for name, c := range map[string]struct {
		history []Op
		bad     bool
	}{
		"a read of the last write":          {history(false, one...), false},
		"a stale read":                      {history(false, Op{Kind: Write, Value: 7}, Op{Kind: Read, Worker: 1}), true},
		"a stale read at the same time":     {history(true, Op{Kind: Write, Value: 7}, Op{Kind: Read, Worker: 1}), false},
		"new, then old":                     {history(false, Op{Kind: Write, Value: 7, Unknown: true}, Op{Kind: Read, Value: 7}, Op{Kind: Read}), true},
		"a write without answer, late":      {history(false, Op{Kind: Write, Value: 7, Unknown: true}, Op{Kind: Read}, Op{Kind: Read, Value: 7}), false},
		"a write without answer, never":     {history(false, Op{Kind: Write, Value: 7, Unknown: true}, Op{Kind: Read}), false},
		"a value that nobody wrote":         {history(true, Op{Kind: Write, Value: 7}, Op{Kind: Read, Value: 8}), true},
		"a name made twice":                 {history(true, Op{Kind: Make, Done: true}, Op{Kind: Make, Done: true, Worker: 1}), true},
		"a name made by one":                {history(true, Op{Kind: Make, Done: true}, Op{Kind: Make, Worker: 1}), false},
		"a name that is not seen":           {history(false, Op{Kind: Make, Done: true}, Op{Kind: Look}), true},
		"a name removed twice":              {history(false, Op{Kind: Make, Done: true}, Op{Kind: Remove, Done: true}, Op{Kind: Remove, Done: true}), true},
		"a lock held by two":                {history(true, Op{Kind: Lock, Done: true}, Op{Kind: Lock, Done: true, Worker: 1}), true},
		"a lock handed on":                  {history(false, Op{Kind: Lock, Done: true}, Op{Kind: Unlock, Done: true}, Op{Kind: Lock, Done: true, Worker: 1}), false},
		"a lock refused, and free":          {history(false, Op{Kind: Lock, Done: true}, Op{Kind: Unlock, Done: true}, Op{Kind: Lock, Worker: 1}), true},
		"a lock that was perhaps got":       {history(false, Op{Kind: Lock, Unknown: true}, Op{Kind: Lock, Worker: 1}), false},
		"a lock after a perhaps of its own": {history(false, Op{Kind: Lock, Unknown: true}, Op{Kind: Lock, Done: true}), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(c.history, time.Minute)
			if c.bad {
				require.ErrorContains(t, err, "is not linearizable")
			} else {
				require.NoError(t, err)
			}
		})
	}
	var many []Op
	for i := range 40 { // of which each order is possible, and none explains the last one
		many = append(many, Op{Kind: Write, Value: i + 1, Worker: i})
	}
	require.ErrorContains(t, Check(history(true, append(many, Op{Kind: Read, Value: 99})...), time.Millisecond), "was not checked within")
}

// The load on a local file system is linearizable, and has all operations.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	r, err := Run(ctx, Config{Mounts: []string{dir, dir}, Dirs: []string{"."}, Workers: 2, Window: 50 * time.Millisecond, Within: time.Minute})
	require.NoError(t, err)
	require.Positive(t, r.Windows)
	require.Zero(t, r.Unknowns)
	for _, kind := range []Kind{Read, Write, Make, Remove, Look, Lock, Unlock} {
		require.Positive(t, r.Done[kind], kind)
	}
	for _, kind := range []Kind{Make, Remove, Look} {
		require.Positive(t, r.Refused[kind], kind)
	}
}
