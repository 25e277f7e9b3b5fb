package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func scrape(t *testing.T, s *Set) (int, string) {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Code, w.Body.String()
}

func TestScrape(t *testing.T) {
	var s Set
	live := 7.0
	s.Add(func(report Report) { report(DataLiveBytes, live, "0") })
	s.Add(func(report Report) { report(StorageFetchedBlocks, 3, "eu", "eu-a") })
	for range 2 {
		code, text := scrape(t, &s)
		require.Equal(t, http.StatusOK, code)
		require.Contains(t, text, "# TYPE globalfs_data_live_bytes gauge")
		if live == 7 {
			require.Contains(t, text, "globalfs_data_live_bytes{partition=\"0\"} 7\n")
		} else {
			require.Contains(t, text, "globalfs_data_live_bytes{partition=\"0\"} 8\n")
		}
		require.Contains(t, text, "# TYPE globalfs_storage_fetched_blocks_total counter")
		require.Contains(t, text, "globalfs_storage_fetched_blocks_total{region=\"eu\",server=\"eu-a\"} 3\n")
		live++
	}
}

// One part that is wrong does not hide the others.
func TestWrongLabels(t *testing.T) {
	var s Set
	s.Add(func(report Report) { report(DataLiveBytes, 1) })
	s.Add(func(report Report) { report(DataDroppedBytes, 1, "0") })
	_, text := scrape(t, &s)
	require.Contains(t, text, "globalfs_data_dropped_bytes{partition=\"0\"} 1\n")
	require.NotContains(t, text, "globalfs_data_live_bytes{")
}

// Names follow Prometheus' rules, and no two are the same.
func TestDefinitions(t *testing.T) {
	seen := map[string]bool{}
	for n, d := range definitions {
		require.NotEmpty(t, d.help, n)
		require.True(t, strings.HasPrefix(d.name, "globalfs_"), d.name)
		require.Equal(t, d.counter, strings.HasSuffix(d.name, "_total"), d.name)
		require.False(t, seen[d.name], d.name)
		seen[d.name] = true
		require.Equal(t, d.name, Name(n).String())
	}
}
