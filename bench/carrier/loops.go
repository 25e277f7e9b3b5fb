package carrier

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// localLoop makes a name, looks up a name of a command under way, removes the name, and so on.
type localLoop struct {
	*client
	run       *cutRun
	partition uint16
	count     int
	before    [localKinds][]time.Duration
	during    [localKinds][]time.Duration
}

const localKinds = 3

func (l *localLoop) next() {
	kind, began := l.count%localKinds, l.now
	name := fmt.Sprintf("local%d", l.count/localKinds)
	l.count++
	then := func(a answer) {
		switch {
		case a.unknown:
			l.err = fmt.Errorf("local operation in %s: no answer", l.region)
			return
		case began >= l.run.begin-beforeCut && l.now < l.run.begin-2*begunIn*l.farthest():
			l.before[kind] = append(l.before[kind], a.took)
		case l.now >= l.run.begin && began < l.run.end:
			l.during[kind] = append(l.during[kind], a.took)
		}
		if l.now < l.run.end {
			l.schedule(l.now+10*time.Millisecond, l.next)
		}
	}
	switch kind {
	case 0:
		l.update(time.Minute, mknod(l.partition, name), []uint16{l.partition}, then)
	case 1:
		moved := l.run.flights[l.count%len(l.run.flights)].name
		l.query(l.partition, meta.Command{Op: meta.OpLookup, Ino: root(l.partition), Name: moved}, then)
	default:
		l.update(time.Minute, unlink(l.partition, name), []uint16{l.partition}, then)
	}
}

func (l *localLoop) row(carrier string) Local {
	row := Local{Carrier: carrier, Region: l.region}
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
	*client
	run     *cutRun
	parties []uint16
	file    posix.Ino
	count   int
	commits []time.Duration // times of the answers
	before  []time.Duration // latencies
}

func (l *classLoop) next() {
	l.count++
	name := fmt.Sprintf("link%d.%d", l.session, l.count)
	l.update(5*time.Second, linkIn(l.file, l.parties[1], name), l.parties, func(a answer) {
		if !a.unknown && a.Code == posix.OK {
			l.commits = append(l.commits, l.now)
			if l.now < l.run.begin {
				l.before = append(l.before, a.took)
			}
		}
		if l.now < l.run.end+afterCut {
			l.next()
		}
	})
}

func (l *classLoop) row(carrier string) Class {
	row := Class{Carrier: carrier, Severed: slices.Contains(l.parties, off), P50: percentile(l.before, 50)}
	for _, p := range l.parties {
		if p == global {
			row.Parties = append(row.Parties, "/")
		} else {
			row.Parties = append(row.Parties, l.regions[p-1])
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
