package posix

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Changes become visible to another client after a delay: that of its replica, and that of the kernel's
// cache.
const (
	soon = 30 * time.Second
	look = 5 * time.Millisecond
)

// eventually waits until the other mount sees a change.
func eventually(t *testing.T, what string, seen func() bool) {
	t.Helper()
	require.Eventually(t, seen, soon, look, what)
}

// TestTwoMounts: each of the mounts in two regions sees the changes of the other one, in each kind of
// partition.
func TestTwoMounts(t *testing.T) {
	c := startCluster(t)
	for _, dir := range []string{near, far, "."} {
		for from, to := range map[string]string{near: far, far: near} {
			t.Run(fmt.Sprintf("%s from %s", dir, from), func(t *testing.T) {
				name := "seen-from-" + from
				here, there := c.in(from, dir, name), c.in(to, dir, name)
				holds := func(path, text string) func() bool {
					return func() bool { got, err := os.ReadFile(path); return err == nil && string(got) == text }
				}
				require.NoError(t, os.WriteFile(here, []byte("one"), 0o644))
				eventually(t, "a new file", holds(there, "one"))
				require.NoError(t, os.WriteFile(here, []byte("other"), 0o644))
				eventually(t, "new content", holds(there, "other"))
				require.NoError(t, os.Rename(here, here+"-moved"))
				eventually(t, "a new name", holds(there+"-moved", "other"))
				eventually(t, "the old name gone", func() bool { _, err := os.Stat(there); return os.IsNotExist(err) })
				require.NoError(t, os.Remove(here+"-moved"))
				eventually(t, "a removal", func() bool { _, err := os.Stat(there + "-moved"); return os.IsNotExist(err) })
			})
		}
	}
}

// TestExclusiveCreate: if two mounts create the same name with O_EXCL, exactly one succeeds.
func TestExclusiveCreate(t *testing.T) {
	c := startCluster(t)
	for i := range 100 {
		dir := []string{near, "."}[i%2]
		var wins [2]error
		var both sync.WaitGroup
		for n, region := range []string{near, far} {
			both.Go(func() {
				f, err := os.OpenFile(c.in(region, dir, fmt.Sprintf("lock-%d", i)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if err == nil {
					err = f.Close()
				}
				wins[n] = err
			})
		}
		both.Wait()
		require.True(t, (wins[0] == nil) != (wins[1] == nil), "%v", wins)
		for _, err := range wins {
			require.True(t, err == nil || os.IsExist(err), "%v", err)
		}
	}
}

// TestAppend: if two mounts append lines to one file at the same time, all lines are there and intact, and
// those of each mount are in order.
func TestAppend(t *testing.T) {
	const lines = 200
	c := startCluster(t)
	for _, dir := range []string{near, "."} {
		require.NoError(t, os.WriteFile(c.in(near, dir, "log"), nil, 0o644))
		eventually(t, "the file", func() bool { _, err := os.Stat(c.in(far, dir, "log")); return err == nil })
		var both sync.WaitGroup
		for _, region := range []string{near, far} {
			both.Go(func() {
				f, err := os.OpenFile(c.in(region, dir, "log"), os.O_APPEND|os.O_WRONLY, 0)
				if !assert.NoError(t, err) {
					return
				}
				defer f.Close()
				for i := range lines {
					_, err := fmt.Fprintf(f, "%s %d\n", region, i)
					assert.NoError(t, err)
				}
			})
		}
		both.Wait()
		var got []string
		eventually(t, "all lines", func() bool {
			text, err := os.ReadFile(c.in(near, dir, "log"))
			got = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			return err == nil && len(got) >= 2*lines
		})
		next := map[string]int{}
		for _, line := range got {
			region, number, _ := strings.Cut(line, " ")
			require.Equal(t, fmt.Sprint(next[region]), number, "in line %q", line)
			next[region]++
		}
		require.Equal(t, map[string]int{near: lines, far: lines}, next)
	}
}
