package packing

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/globalfs/globalfs/bench/figures"
	"github.com/globalfs/globalfs/bench/results"
)

// Point is one measurement.
type Point struct {
	Protocol   string  `json:"protocol"`
	Senders    int     `json:"senders"` // 1, or all
	Burst      int     `json:"burst"`   // messages of a sender in a round
	Sustained  bool    `json:"sustained"`
	Throughput float64 `json:"messages_per_s"`
	Latency    float64 `json:"round_ms"`
	Packets    float64 `json:"packets_per_message"`
}

// Report has the points of a run.
type Report struct {
	Processes int     `json:"processes"`
	Points    []Point `json:"points"`
}

// Validate names the wrong field and the remedy.
func (c *Config) Validate() error {
	for _, name := range c.Protocols {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("there is no protocol %q: give some of %s", name, strings.Join(names(), ", "))
		}
	}
	for _, b := range c.Bursts {
		if b < 1 || b > 100_000 {
			return fmt.Errorf("bursts of %d messages: give 1 to 100000", b)
		}
	}
	switch {
	case c.Processes < 2 || c.Processes > 64:
		return fmt.Errorf("%d processes: give 2 to 64", c.Processes)
	case c.Rounds < 1:
		return fmt.Errorf("%d rounds: give 1 or more", c.Rounds)
	}
	return nil
}

// Run measures all protocols, with all processes as senders and with one.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &Report{Processes: c.Processes}
	if err := c.Validate(); err != nil {
		return r, err
	}
	for _, senders := range []int{c.Processes, 1} {
		for _, name := range c.Protocols {
			for _, burst := range c.Bursts {
				if err := ctx.Err(); err != nil {
					return r, err
				}
				if c.Progress != nil {
					c.Progress(fmt.Sprintf("%s, %d senders, bursts of %d", name, senders, burst))
				}
				p, err := c.measure(name, senders, burst)
				if err != nil {
					return r, err
				}
				r.Points = append(r.Points, p)
			}
		}
	}
	return r, nil
}

// rounds are the application: each sender sends a burst, and the next one when everyone has received all.
type rounds struct {
	*network
	senders, burst int
	acks           map[int]int // of a round
	begun          []int       // rounds of a process
	ended          time.Duration
}

// start starts the rounds of one protocol. A single sender is the orderer, the sequencer or the holder of the
// token: protocols pass this part to an active process.
func (c *Config) start(name string, senders, burst int) (*rounds, error) {
	r := &rounds{network: &network{cfg: c}, senders: senders, burst: burst, acks: map[int]int{}, begun: make([]int, c.Processes)}
	i := slices.Index(names(), name)
	if i < 0 {
		return nil, fmt.Errorf("there is no protocol %q", name)
	}
	for id := range c.Processes {
		s := &station{net: r.network, id: id}
		s.protocol = kinds[i].make(s)
		r.stations = append(r.stations, s)
	}
	r.network.deliver, r.acked = r.progress, r.ack
	for _, s := range r.stations[:senders] {
		r.begin(s)
	}
	if t, ok := r.stations[0].protocol.(*totem); ok {
		t.pass()
	}
	return r, nil
}

// end lets everything happen until the rounds have ended, or a packet is lost.
func (r *rounds) end() error {
	for r.ended == 0 && !r.lost {
		if len(r.events) == 0 {
			return fmt.Errorf("%d senders with bursts of %d: the protocol stands still", r.senders, r.burst)
		}
		e := r.events.Pop()
		r.now = e.at
		e.what()
	}
	return nil
}

// measure runs the rounds of one protocol.
func (c *Config) measure(name string, senders, burst int) (Point, error) {
	p := Point{Protocol: name, Senders: senders, Burst: burst}
	r, err := c.start(name, senders, burst)
	if err != nil {
		return p, err
	}
	if err := r.end(); err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	if p.Sustained = !r.lost; r.lost {
		return p, nil
	}
	messages := float64(senders * burst * c.Rounds)
	p.Throughput, p.Latency = messages/r.ended.Seconds(), r.ended.Seconds()*1000/float64(c.Rounds)
	p.Packets = float64(r.packets) / messages
	return p, nil
}

// begin sends the burst of the next round.
func (r *rounds) begin(s *station) {
	burst := make([]message, r.burst)
	for i := range burst {
		burst[i] = message{s.id, r.begun[s.id]*r.burst + i}
	}
	r.begun[s.id]++
	s.protocol.submit(burst)
}

// progress ends the round of a process when all messages are there.
func (r *rounds) progress(s *station) {
	round := r.begun[s.id]
	if r.senders == 1 && s.id != 0 {
		round = len(s.delivered) / r.burst
		if r.begun[s.id] < round {
			r.begun[s.id] = round
			s.send(&packet{to: 0, holder: -1, ack: round})
		}
		return
	}
	if r.senders > 1 && len(s.delivered) >= round*r.burst*r.senders {
		r.finish(s, round)
	}
}

// ack counts the receivers of a round of the single sender.
func (r *rounds) ack(s *station, round int) {
	if r.acks[round]++; r.acks[round] == r.cfg.Processes-1 {
		r.finish(s, round)
	}
}

func (r *rounds) finish(s *station, round int) {
	if round < r.cfg.Rounds {
		r.begin(s)
		return
	}
	if r.senders == 1 || !slices.ContainsFunc(r.stations, func(o *station) bool { return len(o.delivered) < r.cfg.Rounds*r.burst*r.senders }) {
		r.ended = r.now
	}
}

// WriteJSON writes one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return results.WriteJSON(w, r) }

// WriteTable writes the tables for people: the paper's Figures 1 and 2, then 3 and 4.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "%d processes on an Ethernet of 10 Mbit/s, messages of one byte, virtual time (package bench/packing).\n\n", r.Processes)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "senders\tburst\tprotocol\tmessages/s\tround ms\tpackets/message\t")
	for _, p := range r.Points {
		if !p.Sustained {
			fmt.Fprintf(w, "%d\t%d\t%s\tnot sustained\t\t\t\n", p.Senders, p.Burst, p.Protocol)
			continue
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%.0f\t%.1f\t%.2f\t\n", p.Senders, p.Burst, p.Protocol, p.Throughput, p.Latency, p.Packets)
	}
	return w.Flush()
}

// WriteFiles writes packing.json, packing.txt and Figures 1 to 4.
func (r *Report) WriteFiles(dir string) error {
	files := results.Both("packing", r)
	for i, f := range []struct {
		senders int
		y       string
		of      func(*Point) float64
	}{
		{r.Processes, "messages/s", func(p *Point) float64 { return p.Throughput }}, {r.Processes, "round, ms", func(p *Point) float64 { return p.Latency }},
		{1, "messages/s", func(p *Point) float64 { return p.Throughput }}, {1, "round, ms", func(p *Point) float64 { return p.Latency }},
	} {
		figure := r.figure(fmt.Sprintf("Figure %d: %d of %d processes send", i+1, f.senders, r.Processes), f.senders, f.y, f.of)
		files[fmt.Sprintf("packing-figure-%d.svg", i+1)] = figure.WriteSVG
	}
	return results.WriteFiles(dir, files)
}

func (r *Report) figure(title string, senders int, y string, of func(*Point) float64) *figures.Figure {
	f := &figures.Figure{Title: title, X: figures.Axis{Label: "messages in a burst", Log: true}, Y: figures.Axis{Label: y, Log: true}}
	for style, name := range names() {
		c := figures.Curve{Name: name, Style: style, Marks: true}
		for i := range r.Points {
			if p := &r.Points[i]; p.Protocol == name && p.Senders == senders && p.Sustained {
				c.Points = append(c.Points, figures.Point{X: float64(p.Burst), Y: of(p)})
			}
		}
		f.Curves = append(f.Curves, c)
	}
	return f
}
