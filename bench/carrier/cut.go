package carrier

import (
	"errors"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// The cut experiment cuts the third region off while commands of the first and the third region are under way
// from both sides: renames of files in the first region to the third one, begun at equal distances in the
// last round trips before the cut (begunIn).

// Held is the time for which a local update, sent when the cut began, could not change files of the healthy
// side.
type Held struct {
	Carrier     string          `json:"carrier"`
	Coordinator topology.Region `json:"coordinator"` // of the commands
	Commands    int             `json:"commands"`
	Held        int             `json:"held"`      // files with an update that waited
	P50         float64         `json:"p50_s"`     // of the waits, in seconds since the cut began
	Longest     float64         `json:"longest_s"` // likewise
	ToTheEnd    int             `json:"to_the_end"`
}

// Callers has the outcomes of the callers of the commands under way.
type Callers struct {
	Carrier  string          `json:"carrier"`
	Client   topology.Region `json:"client"`
	Commands int             `json:"commands"`
	Done     int             `json:"done"`
	TimedOut int             `json:"timed_out"` // ETIMEDOUT: never executed
	Refused  int             `json:"refused"`   // other errors
	Unknown  int             `json:"unknown"`   // no answer
	Longest  float64         `json:"longest_s"` // until an answer, in seconds
}

// Local is the effect of the cut on local operations of a region.
type Local struct {
	Carrier    string          `json:"carrier"`
	Region     topology.Region `json:"region"`
	Operations int             `json:"operations"` // during the cut
	P50        float64         `json:"p50_ms"`     // of updates, before the cut
	Delayed    int             `json:"delayed"`    // beyond delayedBeyond times the median of their kind before
	Worst      float64         `json:"worst_ratio"`
}

// delayedBeyond is the ratio to the latency before the cut beyond which a local operation counts as delayed.
const delayedBeyond = 1.25

// Class is the effect of the cut on commands of other parties. A client of the class has one command under
// way.
type Class struct {
	Carrier  string            `json:"carrier"`
	Parties  []topology.Region `json:"parties"` // "/": the global partition
	Severed  bool              `json:"severed"` // the cut separates the parties
	P50      float64           `json:"p50_ms"`  // before the cut
	Commands int               `json:"commands"`
	Stood    float64           `json:"stood_s"` // longest time without a commit, in seconds
	Rates    []float64         `json:"rates"`   // commits in each second, from beforeCut on
}

// The phases of the experiment.
const (
	beforeCut = 5 * time.Second
	afterCut  = 15 * time.Second
	// begunIn is the number of round trips before the cut in which the commands under way begin.
	begunIn = 3
)

// cutRows are all rows of the experiment with one carrier.
type cutRows struct {
	held    []Held
	callers []Callers
	local   []Local
	classes []Class
}

// cutRun is one run of the experiment.
type cutRun struct {
	*Config
	*virtual.Cluster
	carrier    *virtual.Carrier
	begin, end time.Duration // of the cut
	flights    []*flight
	locals     []*localLoop
	classLoops []*classLoop
}

// flight is a command under way when the cut begins.
type flight struct {
	*virtual.Client
	name  string
	file  posix.Ino
	probe *virtual.Client
	got   *virtual.Answer // to the command
	free  time.Duration   // when the local update was answered; 0: never
}

// The partitions of the first region and of the separated one.
const near, off = 1, 3

// cut runs the experiment with one carrier.
func (c *Config) cut(carrier *virtual.Carrier) (rows cutRows, err error) {
	k, err := virtual.New(virtual.Config{Carrier: carrier, Regions: c.Regions, Seed: c.Seed})
	if err != nil {
		return rows, err
	}
	r := &cutRun{Config: c, Cluster: k, carrier: carrier}
	if err := r.prepare(); err != nil {
		return rows, err
	}
	r.begin = r.Now + beforeCut
	r.end = r.begin + c.Cut
	for _, l := range r.locals {
		l.next()
	}
	for _, l := range r.classLoops {
		l.next()
	}
	rtt := 2 * farthest(k)
	for i, f := range r.flights {
		side := i / c.InFlight
		at := r.begin - time.Duration(2*(i%c.InFlight)+1)*begunIn*rtt/time.Duration(2*c.InFlight)
		k.Schedule(at, f.send(c.Patience, side))
	}
	k.Schedule(r.begin, func() { k.CutOff(c.Regions[2]) })
	for _, f := range r.flights {
		k.Schedule(r.begin+time.Millisecond, f.touch(c.Cut+afterCut))
	}
	k.Schedule(r.end, k.Mend)
	k.Pass(r.end + afterCut - k.Now)
	if k.Err != nil {
		return rows, k.Err
	}
	rows = r.rows()
	k.Pass(settleTime)
	return rows, errors.Join(r.judge(), k.Verify())
}

// farthest returns the delay between the first region and the separated one.
func farthest(k *virtual.Cluster) time.Duration { return topology.Delay(k.Regions[0], k.Regions[2]) }

// prepare makes the files and the clients.
func (r *cutRun) prepare() error {
	for side, region := range []topology.Region{r.Config.Regions[0], r.Config.Regions[2]} {
		for i := range r.InFlight {
			f := &flight{Client: r.NewClient(region), probe: r.NewClient(r.Config.Regions[0]), name: fmt.Sprintf("moved%d.%d", side, i)}
			err := errors.Join(f.Open(near), f.Open(off), f.probe.Open(near))
			if err == nil {
				f.file, err = f.Client.File(near, f.name)
			}
			if err != nil {
				return err
			}
			r.flights = append(r.flights, f)
		}
	}
	for i, region := range r.Config.Regions {
		l := &localLoop{Client: r.NewClient(region), run: r, partition: uint16(i + 1)}
		if err := l.Open(l.partition); err != nil {
			return err
		}
		r.locals = append(r.locals, l)
	}
	for _, parties := range [][]uint16{{1, 2}, {1, virtual.Global}, {2, virtual.Global}, {1, 3}, {2, 3}} {
		l := &classLoop{Client: r.NewClient(r.Config.Regions[parties[0]-1]), run: r, parties: parties}
		err := l.Open(parties[0])
		if err == nil {
			l.file, err = l.Client.File(parties[0], fmt.Sprintf("linked%v", parties))
		}
		if err != nil {
			return err
		}
		r.classLoops = append(r.classLoops, l)
	}
	r.Pass(settleTime)
	return r.Cluster.Err
}

// send returns the start of the command, requested from the healthy side or from the other one.
func (f *flight) send(patience time.Duration, side int) func() {
	parties := []uint16{near, off}
	if side == 1 {
		parties = []uint16{off, near}
	}
	return func() {
		f.Update(patience, virtual.Rename(f.file, f.name, near, off), parties, func(a virtual.Answer) { f.got = &a })
	}
}

// touch returns the start of the local update.
func (f *flight) touch(patience time.Duration) func() {
	return func() {
		f.probe.Update(patience, virtual.Touch(f.file), []uint16{near}, func(a virtual.Answer) {
			if !a.Unknown {
				f.free = f.Now
			}
		})
	}
}

func seconds(d time.Duration) float64 { return milliseconds(d) / 1000 }

// rows sums up the run.
func (r *cutRun) rows() (rows cutRows) {
	for side, region := range []topology.Region{r.Config.Regions[0], r.Config.Regions[2]} {
		flights := r.flights[side*r.InFlight:][:r.InFlight]
		rows.held = append(rows.held, r.heldRow(region, flights))
		rows.callers = append(rows.callers, callersRow(r.carrier.Name, region, flights))
	}
	for _, l := range r.locals {
		rows.local = append(rows.local, l.row(r.carrier.Name))
	}
	for _, l := range r.classLoops {
		rows.classes = append(rows.classes, l.row(r.carrier.Name))
	}
	return rows
}

// heldRow sums up the local updates of the files of commands.
func (r *cutRun) heldRow(coordinator topology.Region, flights []*flight) Held {
	row := Held{Carrier: r.carrier.Name, Coordinator: coordinator, Commands: len(flights)}
	var waits []time.Duration
	for _, f := range flights {
		wait := f.free - r.begin
		if f.free == 0 {
			wait = r.end + afterCut - r.begin
		}
		if wait < 10*time.Millisecond {
			continue
		}
		waits = append(waits, wait)
		row.Longest = max(row.Longest, seconds(wait))
		if wait >= r.Cut {
			row.ToTheEnd++
		}
	}
	row.Held, row.P50 = len(waits), percentile(waits, 50)/1000
	return row
}

func callersRow(carrier string, client topology.Region, flights []*flight) Callers {
	row := Callers{Carrier: carrier, Client: client, Commands: len(flights)}
	for _, f := range flights {
		switch {
		case f.got == nil || f.got.Unknown:
			row.Unknown++
			continue
		case f.got.Code == posix.OK:
			row.Done++
		case f.got.Code == posix.ETIMEDOUT:
			row.TimedOut++
		default:
			row.Refused++
		}
		row.Longest = max(row.Longest, seconds(f.got.Took))
	}
	return row
}

// judge compares the answers with the names at the end: a successful command is executed, a failed one is
// not.
func (r *cutRun) judge() error {
	for _, f := range r.flights {
		here, err := r.has(f.probe, near, f.name)
		if err != nil {
			return err
		}
		there, err := r.has(f.probe, off, f.name)
		if err != nil {
			return err
		}
		executed := there && !here
		switch {
		case here == there:
			return fmt.Errorf("%s: name %q: at the source %v, at the target %v", r.carrier.Name, f.name, here, there)
		case f.got != nil && !f.got.Unknown && executed != (f.got.Code == posix.OK):
			return fmt.Errorf("%s: name %q: the caller got %v, executed: %v", r.carrier.Name, f.name, f.got.Code, executed)
		}
	}
	return nil
}

// has reports whether the root directory of a partition has a name.
func (r *cutRun) has(c *virtual.Client, partition uint16, name string) (bool, error) {
	var got *virtual.Answer
	c.Query(partition, meta.Command{Op: meta.OpLookup, Ino: virtual.Root(partition), Name: name}, func(a virtual.Answer) { got = &a })
	r.Run(r.Now+time.Minute, func() bool { return got != nil })
	if got == nil || got.Unknown {
		return false, errors.Join(fmt.Errorf("look-up of %q in partition %d: no answer", name, partition), r.Cluster.Err)
	}
	return got.Code == posix.OK, nil
}
