package carrier

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// localLoop makes a name, looks up a name of a command under way, removes the name, and so on.
type localLoop struct {
	*virtual.Client
	run       *cutRun
	partition uint16
	count     int
	before    [localKinds][]time.Duration
	during    [localKinds][]time.Duration
}

const localKinds = 3

func (l *localLoop) next() {
	kind, began := l.count%localKinds, l.Now
	name := fmt.Sprintf("local%d", l.count/localKinds)
	l.count++
	then := func(a virtual.Answer) {
		switch {
		case a.Unknown:
			l.Err = fmt.Errorf("local operation in %s: no answer", l.Region)
			return
		case began >= l.run.begin-beforeCut && l.Now < l.run.begin-2*begunIn*farthest(l.Cluster):
			l.before[kind] = append(l.before[kind], a.Took)
		case l.Now >= l.run.begin && began < l.run.end:
			l.during[kind] = append(l.during[kind], a.Took)
		}
		if l.Now < l.run.end {
			l.Schedule(l.Now+10*time.Millisecond, l.next)
		}
	}
	switch kind {
	case 0:
		l.Update(time.Minute, virtual.Mknod(l.partition, name), []uint16{l.partition}, then)
	case 1:
		moved := l.run.flights[l.count%len(l.run.flights)].name
		l.Query(l.partition, meta.Command{Op: meta.OpLookup, Ino: virtual.Root(l.partition), Name: moved}, then)
	default:
		l.Update(time.Minute, virtual.Unlink(l.partition, name), []uint16{l.partition}, then)
	}
}

func (l *localLoop) row(carrier string) Local {
	row := Local{Carrier: carrier, Region: l.Region}
	for kind := range localKinds {
		usual := percentile(l.before[kind], 50)
		row.P50 = max(row.P50, usual)
		for _, took := range l.during[kind] {
			row.Operations++
			ratio := milliseconds(took) / usual
			row.Worst = max(row.Worst, ratio)
			if ratio > delayedBeyond {
				row.Delayed++
			}
		}
	}
	return row
}

// classLoop links a file into another partition, again and again.
type classLoop struct {
	*virtual.Client
	run     *cutRun
	parties []uint16
	file    posix.Ino
	count   int
	commits []time.Duration // times of the answers
	before  []time.Duration // latencies
}

func (l *classLoop) next() {
	l.count++
	name := fmt.Sprintf("link%d.%d", l.Session, l.count)
	l.Update(5*time.Second, virtual.LinkIn(l.file, l.parties[1], name), l.parties, func(a virtual.Answer) {
		if !a.Unknown && a.Code == posix.OK {
			l.commits = append(l.commits, l.Now)
			if l.Now < l.run.begin {
				l.before = append(l.before, a.Took)
			}
		}
		if l.Now < l.run.end+afterCut {
			l.next()
		}
	})
}

func (l *classLoop) row(carrier string) Class {
	row := Class{Carrier: carrier, Severed: slices.Contains(l.parties, off), P50: percentile(l.before, 50)}
	for _, p := range l.parties {
		if p == virtual.Global {
			row.Parties = append(row.Parties, "/")
		} else {
			row.Parties = append(row.Parties, l.Regions[p-1])
		}
	}
	start := l.run.begin - beforeCut
	row.Rates = make([]float64, int((l.run.end+afterCut-start)/time.Second))
	last := start
	for _, at := range append(slices.Clone(l.commits), l.run.end+afterCut) {
		if at > l.run.begin {
			row.Stood = max(row.Stood, seconds(at-last))
		}
		last = max(last, at)
		if i := int((at - start) / time.Second); at >= start && i < len(row.Rates) {
			row.Rates[i]++
		}
		if at >= l.run.begin && at < l.run.end {
			row.Commands++
		}
	}
	return row
}
