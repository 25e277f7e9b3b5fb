package carrier

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/posix"
)

// Contention is the result of clients that link the same files. Half of the clients are in the first region,
// half in the second one, and so are the files. A client links a file of one region into the other region
// under a new name: two commands conflict if and only if they link the same file.
type Contention struct {
	Carrier  string  `json:"carrier"`
	Clients  int     `json:"clients"`
	Objects  int     `json:"objects"`
	Rate     float64 `json:"commands_per_second"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Attempts float64 `json:"attempts"` // messages between partitions per answered command
	Failed   int     `json:"failed"`   // commands with another answer than success, or without an answer
}

// warmup is the time before a measurement of contention.
const warmup = 2 * time.Second

// contend measures one load with one carrier.
func (c *Config) contend(carrier *virtual.Carrier, clients, objects int) (Contention, error) {
	row := Contention{Carrier: carrier.Name, Clients: clients, Objects: objects}
	k, err := virtual.New(virtual.Config{Carrier: carrier, Regions: c.Regions, Seed: c.Seed})
	if err != nil {
		return row, err
	}
	files, err := makeFiles(k, objects)
	if err != nil {
		return row, err
	}
	var took []time.Duration
	var begin, end time.Duration
	for i := range clients {
		l := &linker{Client: k.NewClient(k.Regions[i%2]), own: uint16(i%2 + 1), other: uint16(2 - i%2), files: files}
		if err := l.Open(l.own); err != nil {
			return row, err
		}
		l.done = func(a virtual.Answer) {
			switch {
			case k.Now < begin || k.Now >= end:
			case a.Unknown || a.Code != posix.OK:
				row.Failed++
			default:
				took = append(took, a.Took)
			}
		}
		k.Schedule(k.Now+time.Duration(i)*time.Millisecond, l.next)
	}
	begin = k.Now + warmup
	end = begin + c.Duration
	k.Pass(warmup)
	messages := k.Messages
	k.Pass(c.Duration)
	row.Rate = float64(len(took)) / c.Duration.Seconds()
	row.Attempts = float64(k.Messages-messages) / float64(max(len(took)+row.Failed, 1))
	row.P50, row.P99 = percentile(took, 50), percentile(took, 99)
	return row, k.Err
}

// makeFiles makes files in the first two regions.
func makeFiles(k *virtual.Cluster, count int) (files []object, err error) {
	for i := range count {
		p := uint16(i%2 + 1)
		x := k.NewClient(k.Regions[p-1])
		if err := x.Open(p); err != nil {
			return nil, err
		}
		file, err := x.File(p, fmt.Sprintf("file%d", i))
		if err != nil {
			return nil, err
		}
		files = append(files, object{file, p})
	}
	return files, nil
}

// object is a file that clients contend for.
type object struct {
	file posix.Ino
	at   uint16 // partition
}

// linker is a client that links one file after the other.
type linker struct {
	*virtual.Client
	own, other uint16
	files      []object
	links      int
	done       func(virtual.Answer)
}

// next links a file into the region where the file is not.
func (l *linker) next() {
	f := l.files[l.Random.IntN(len(l.files))]
	dir := l.own
	if f.at == l.own {
		dir = l.other
	}
	l.links++
	name := fmt.Sprintf("link%d.%d", l.Session, l.links)
	l.Update(time.Minute, virtual.LinkIn(f.file, dir, name), []uint16{l.own, l.other}, func(a virtual.Answer) {
		l.done(a)
		l.next()
	})
}
