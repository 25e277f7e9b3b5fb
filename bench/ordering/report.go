package ordering

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"
)

// Report is the results of a run, with their setup.
type Report struct {
	Setup  Setup   `json:"setup"`
	Steps  []Steps `json:"steps"`
	Points []Point `json:"points"`
}

// Setup is the parameters that determine the numbers.
type Setup struct {
	Go           string        `json:"go"`
	Platform     string        `json:"platform"`
	Seed         uint64        `json:"seed"`
	Groups       int           `json:"groups"`
	GroupMembers int           `json:"group_members"`
	Payload      int           `json:"payload_bytes"`
	Cost         Cost          `json:"cost"`
	Skew         time.Duration `json:"skew_ns"`
}

func newSetup(c *Config) Setup {
	return Setup{
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Seed: c.Seed,
		Groups: groupCount, GroupMembers: members, Payload: c.Payload, Cost: c.Cost, Skew: c.Skew,
	}
}

// WriteJSON writes one JSON object, a point a line, so that two runs can be compared line by line.
func (r *Report) WriteJSON(w io.Writer) error {
	setup, err := json.Marshal(r.Setup)
	if err != nil {
		return err
	}
	steps, err := json.Marshal(r.Steps)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "{\"setup\":%s,\n\"steps\":%s,\n\"points\":[", setup, steps); err != nil {
		return err
	}
	for i := range r.Points {
		point, err := json.Marshal(&r.Points[i])
		if err != nil {
			return err
		}
		comma := ",\n"
		if i == 0 {
			comma = "\n"
		}
		if _, err := fmt.Fprintf(w, "%s%s", comma, point); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(w, "\n]}")
	return err
}

// WriteTable writes tables for people.
func (r *Report) WriteTable(out io.Writer) error {
	s := &r.Setup
	cpu := "as fixed"
	if s.Cost.Measured {
		cpu = "as measured"
	}
	fmt.Fprintf(out, "%d groups of %d, a client beside each replica, payload %d bytes, seed %d, %s %s.\n",
		s.Groups, s.GroupMembers, s.Payload, s.Seed, s.Go, s.Platform)
	fmt.Fprintf(out, "A process has one CPU: a step costs %s, and %v for each frame sent or received, %v to wake up.\n",
		cpu, s.Cost.Frame, s.Cost.Wake)
	fmt.Fprintf(out, "A network interface sends %d Mbit/s (0: no limit); clocks are off by up to %v.\n", s.Cost.Bandwidth/1_000_000, s.Skew)

	fmt.Fprint(out, "\nLongest latency in one-way delays\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "protocol\talone: primaries\tfollowers\tin a crowd: primaries\tfollowers\t")
	for _, s := range r.Steps {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t\n", s.Protocol, s.Alone.Primaries, s.Alone.Followers, s.Crowd.Primaries, s.Crowd.Followers)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "scenario\tdestinations\tprotocol\toutstanding\tmessages/s\tp50 ms\tp95 ms\tbusiest\tCPU us/message\tframes/message\t")
	for i := range r.Points {
		p := &r.Points[i]
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%.0f\t%.3f\t%.3f\t%.0f%%\t%.0f\t%.1f\t\n",
			p.Scenario, p.Destinations, p.Protocol, p.Outstanding, p.Throughput, p.Median, p.P95, 100*p.Busy, p.CPU, p.Frames)
	}
	return w.Flush()
}
