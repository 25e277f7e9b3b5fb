package replicas

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/globalfs/globalfs/bench/results"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// Point has the figures of a provider.
type Point struct {
	Provider   string  `json:"provider"`
	Messages   int     `json:"messages"`         // of all clients that were delivered
	Throughput float64 `json:"throughput_per_s"` // of all clients
	Killed     bool    `json:"killed"`
	Gap        float64 `json:"gap_ms"`   // after the kill, or else the longest at all
	Pause      float64 `json:"pause_ms"` // the longest time in which a survivor did not run, though it was due
	Campaigns  int     `json:"campaigns"`
	Leader     int64   `json:"leader"` // at the end
}

// Report has the figures of a run.
type Report struct {
	Groups      int           `json:"groups"`
	Destination int           `json:"destinations"`
	Outstanding int           `json:"outstanding"`
	Payload     int           `json:"payload_bytes"`
	Suspect     time.Duration `json:"suspect_ns"`
	Points      []Point       `json:"points"`
}

// judge checks the deliveries of all replicas.
func (c *Config) judge(provider string, all []*process, killedAt time.Time, took time.Duration) (Point, error) {
	p := Point{Provider: provider, Killed: c.Kill}
	var h check.History
	delivered := map[multicast.MessageID]bool{}
	for _, child := range all {
		id := multicast.ProcessID(child.spec.Memory.Self)
		h.Processes = append(h.Processes, check.Process{ID: id, Group: child.spec.Group, Correct: !child.killed})
		for seq := range child.spec.Messages {
			h.Multicasts = append(h.Multicasts, check.Multicast{
				ID: multicast.MessageID{Sender: id, Seq: seq + 1}, Dest: destination(&child.spec, id, seq+1),
			})
		}
		for i, d := range child.report.Deliveries {
			message := multicast.MessageID{Sender: multicast.ProcessID(d[0]), Seq: uint64(d[1])}
			delivered[message] = true
			h.Deliveries = append(h.Deliveries, check.Delivery{Process: id, ID: message, At: time.Duration(i)})
		}
		p.Pause, p.Campaigns = max(p.Pause, float64(child.report.Pause)/1e6), p.Campaigns+child.report.Campaigns
		if child.spec.Group == 0 && !child.killed {
			p.Gap = max(p.Gap, gap(child.report.Deliveries, killedAt, c.Kill))
			if child.leads.Load() {
				p.Leader = int64(id)
			}
		}
	}
	p.Messages, p.Throughput = len(delivered), float64(len(delivered))/took.Seconds()
	var violations []check.Violation
	for _, property := range []func(*check.History) []check.Violation{check.Integrity, check.PrefixOrder, check.AcyclicOrder, check.Agreement, check.Validity} {
		violations = append(violations, property(&h)...)
	}
	if len(violations) > 0 {
		return p, fmt.Errorf("%d violations: %s", len(violations), check.Describe(violations[:min(len(violations), 5)]))
	}
	return p, nil
}

// gap returns the longest time between two deliveries, in milliseconds, of those that end after the kill.
func gap(deliveries [][3]int64, killedAt time.Time, killed bool) float64 {
	longest := int64(0)
	for i := 1; i < len(deliveries); i++ {
		if !killed || deliveries[i][2] >= killedAt.UnixNano() {
			longest = max(longest, deliveries[i][2]-max(deliveries[i-1][2], 0))
		}
	}
	return float64(longest) / 1e6
}

// WriteJSON writes one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteTable writes the table for people.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "TRAM in %d processes, %d groups of %d; messages of %d bytes to %d groups, %d outstanding at each; in memory.\n",
		r.Groups*members, r.Groups, members, r.Payload, r.Destination, r.Outstanding)
	fmt.Fprintf(out, "A leader is replaced after %v without progress. Nothing was lost, duplicated or out of order.\n", r.Suspect)
	fmt.Fprintf(out, "A pause is a time in which the host did not let a replica run, although it was due: a gap that is not longer comes from there.\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "provider\tmessages\tmessages/s\tleader killed\tlongest gap ms\tlongest pause ms\tcampaigns\t")
	for _, p := range r.Points {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%v\t%.1f\t%.1f\t%d\t\n", p.Provider, p.Messages, p.Throughput, p.Killed, p.Gap, p.Pause, p.Campaigns)
	}
	return w.Flush()
}

// WriteFiles writes tram-processes.json and tram-processes.txt.
func (r *Report) WriteFiles(dir string) error {
	return results.WriteFiles(dir, results.Both("tram-processes", r))
}
