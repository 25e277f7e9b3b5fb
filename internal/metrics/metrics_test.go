package metrics

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

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
	s.Add(func(report Report) { report.Value(DataLiveBytes, live, "0") })
	s.Add(func(report Report) { report.Value(StorageFetchedBlocks, 3, "eu", "eu-a") })
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

// Several servers in one process may have led a partition: their values of it are one value.
func TestSetsInOneProcess(t *testing.T) {
	var all, first, second Set
	first.Add(func(report Report) {
		report.Value(CollectedBlocks, 3, "0")
		report.Value(SweepEnded, 20, "eu")
		report.Value(CollectedBlocks, 7, "1")
	})
	second.Add(func(report Report) {
		report.Value(CollectedBlocks, 4, "0")
		report.Value(SweepEnded, 10, "eu")
	})
	all.Add(first.Report)
	all.Add(second.Report)
	for range 2 {
		code, text := scrape(t, &all)
		require.Equal(t, http.StatusOK, code)
		require.Contains(t, text, "globalfs_gc_collected_blocks_total{partition=\"0\"} 7\n")
		require.Contains(t, text, "globalfs_gc_collected_blocks_total{partition=\"1\"} 7\n")
		require.Contains(t, text, "globalfs_gc_last_sweep_timestamp_seconds{region=\"eu\"} 20\n")
	}
}

// An invalid part does not hide the others.
func TestWrongLabels(t *testing.T) {
	var s Set
	s.Add(func(report Report) { report.Value(DataLiveBytes, 1) })
	s.Add(func(report Report) { report.Value(DataDroppedBytes, 1, "0") })
	_, text := scrape(t, &s)
	require.Contains(t, text, "globalfs_data_dropped_bytes{partition=\"0\"} 1\n")
	require.NotContains(t, text, "globalfs_data_live_bytes{")
}

func TestDurations(t *testing.T) {
	var s Set
	var some, none Durations
	for _, took := range []time.Duration{-1, 0, 1 << shortest, 1<<shortest + 1, 1 << 35, 1<<35 + 1, math.MaxInt64 / 2} {
		some.Observe(took)
	}
	s.Add(func(report Report) {
		report.Durations(ReplicaAppends, &some, "eu", "eu-a", "0")
		report.Durations(ReplicaAppends, &none, "eu", "eu-a", "1")
	})
	_, text := scrape(t, &s)
	require.Contains(t, text, "# TYPE globalfs_log_append_seconds histogram")
	for bound, count := range map[string]int{"3.2768e-05": 3, "6.5536e-05": 4, "17.179869184": 4, "34.359738368": 5, "+Inf": 7} {
		require.Contains(t, text, fmt.Sprintf("globalfs_log_append_seconds_bucket{partition=\"0\",region=\"eu\",server=\"eu-a\",le=%q} %d\n", bound, count))
	}
	require.Contains(t, text, "globalfs_log_append_seconds_count{partition=\"0\",region=\"eu\",server=\"eu-a\"} 7\n")
	require.NotContains(t, text, `partition="1"`, "never done")
}

// Names follow Prometheus' rules, and no two are the same.
func TestDefinitions(t *testing.T) {
	seen := map[string]bool{}
	for n, d := range definitions {
		require.NotEmpty(t, d.help, n)
		require.True(t, strings.HasPrefix(d.name, "globalfs_"), d.name)
		require.Equal(t, d.kind == counter, strings.HasSuffix(d.name, "_total"), d.name)
		require.True(t, d.kind != durations || strings.HasSuffix(d.name, "_seconds"), d.name)
		require.False(t, seen[d.name], d.name)
		seen[d.name] = true
		require.Equal(t, d.name, Name(n).String())
	}
}

// Alerts use existing names.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, d := range definitions {
		known[d.name] = true
		if d.kind == durations {
			known[d.name+"_bucket"] = true
		}
	}
	names := regexp.MustCompile(`globalfs_\w+`).FindAllString(string(text), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.True(t, known[name], name)
	}
}
