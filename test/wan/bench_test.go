package wan

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkRoundTrip measures round trips of single packets: on an idle machine, beside two busy processes
// for each processor, and beside busy goroutines. The load delays the senders, too; late-p99 is the delay of
// the router alone.
func BenchmarkRoundTrip(b *testing.B) {
	loads := []struct {
		name  string
		begin func(*testing.B)
	}{{"none", func(*testing.B) {}}, {"processes", busyProcesses}, {"goroutines", busyGoroutines}}
	for _, rtt := range []time.Duration{0, 10 * time.Millisecond, 70 * time.Millisecond, 140 * time.Millisecond} {
		for _, load := range loads {
			b.Run(fmt.Sprintf("rtt=%v/load=%s", rtt, load.name), func(b *testing.B) {
				l := start(b, Config{Hosts: three(), Delay: apart(rtt / 2)})
				to, c := reflect(b, l, "ireland"), socket(b, l, "oregon")
				load.begin(b)
				var all []time.Duration
				for b.Loop() {
					all = append(all, ask(b, c, to))
				}
				slices.Sort(all)
				milliseconds := func(share float64) float64 {
					return float64(all[int(share*float64(len(all)-1))]) / float64(time.Millisecond)
				}
				stats := l.Stats()
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(milliseconds(0.5), "p50-ms")
				b.ReportMetric(milliseconds(0.99), "p99-ms")
				b.ReportMetric(milliseconds(1), "max-ms")
				b.ReportMetric(float64(stats.Late(0.99).Microseconds()), "late-p99-us")
			})
		}
	}
}

// busyProcesses keeps all processors busy until the benchmark ends.
func busyProcesses(b *testing.B) {
	for range 2 * runtime.NumCPU() {
		c := exec.CommandContext(b.Context(), "sh", "-c", "while :; do :; done")
		require.NoError(b, c.Start())
		b.Cleanup(func() { _ = c.Wait() })
	}
}

// busyGoroutines keeps all processors busy until the benchmark ends.
func busyGoroutines(b *testing.B) {
	var all sync.WaitGroup
	b.Cleanup(all.Wait)
	for range runtime.NumCPU() {
		all.Go(func() {
			for b.Context().Err() == nil {
			}
		})
	}
}

// BenchmarkThroughput sends bytes over TCP connections.
func BenchmarkThroughput(b *testing.B) {
	for _, rtt := range []time.Duration{0, 10 * time.Millisecond, 70 * time.Millisecond} {
		for _, flows := range []int{1, 4} {
			b.Run(fmt.Sprintf("rtt=%v/flows=%d", rtt, flows), func(b *testing.B) {
				l := start(b, Config{Hosts: three(), Delay: apart(rtt / 2)})
				got := make(chan int64, flows)
				to := listen(b, l, "ireland", func(c net.Conn) {
					n, _ := io.Copy(io.Discard, c)
					got <- n
				})
				var connections []net.Conn
				for range flows {
					connections = append(connections, dial(b, l, "oregon", to))
				}
				chunk := make([]byte, 1<<20)
				b.SetBytes(int64(flows * len(chunk)))
				for b.Loop() {
					var all sync.WaitGroup
					for _, c := range connections {
						all.Go(func() {
							if _, err := c.Write(chunk); err != nil {
								b.Error(err)
							}
						})
					}
					all.Wait()
				}
				var sum int64
				for _, c := range connections {
					require.NoError(b, c.Close())
					sum += <-got
				}
				b.ReportMetric(float64(sum)*8/b.Elapsed().Seconds()/1e9, "Gbit/s")
			})
		}
	}
}
