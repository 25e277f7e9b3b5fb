package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRestart: after a clean stop and a restart, each region shows the same tree with all its attributes.
func TestRestart(t *testing.T) {
	c := startCluster(t)
	before := map[string]map[string]string{}
	for _, path := range []string{near, far, "."} {
		dir := filepath.Join(path, "tree")
		plant(t, c.in(near, dir))
		before[dir] = census(t, c.in(near, dir))
	}
	c.stop()
	c.start()
	for dir, want := range before {
		require.Equal(t, want, census(t, c.in(near, dir)))
		require.Equal(t, want, census(t, c.in(far, dir)))
	}
}

// TestKill: updates that were acknowledged before a kill -9 are there after it. The test kills twice, because
// the second start recovers from the state that the first one recovered.
func TestKill(t *testing.T) {
	c := startCluster(t)
	var written []string
	for round := range 2 {
		var mu sync.Mutex
		var writers sync.WaitGroup
		enough, ended := make(chan struct{}), make(chan struct{})
		for _, path := range []string{near, "."} {
			writers.Go(func() {
				for i := 0; ; i++ {
					name := filepath.Join(path, fmt.Sprintf("round-%d-%d", round, i))
					if err := os.WriteFile(c.in(near, name), contentOf(name), 0o644); err != nil {
						return // killed, presumably
					}
					mu.Lock()
					written = append(written, name)
					if len(written) == 300*(round+1) {
						close(enough)
					}
					mu.Unlock()
				}
			})
		}
		go func() {
			defer close(ended)
			writers.Wait()
		}()
		select {
		case <-enough:
		case <-ended:
			require.Fail(t, "the writers ended before the process was killed")
		}
		c.kill()
		<-ended
		c.start()
		for _, name := range written {
			text, err := os.ReadFile(c.in(near, name))
			require.NoError(t, err)
			require.Equal(t, contentOf(name), text, "%s", name)
		}
	}
	t.Logf("%d files were acknowledged, and are there", len(written))
}

// contentOf returns a content that is stored inline for some names, and as a block for others.
func contentOf(name string) []byte {
	if len(name)%2 == 0 {
		return []byte(name)
	}
	return append(pattern(10_000), name...)
}
