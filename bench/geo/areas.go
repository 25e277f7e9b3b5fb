package geo

import (
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// area is a consumer of CPU time, identified by the prefixes of the names of its functions.
type area struct {
	name   string
	starts []string
}

const (
	module    = "github.com/globalfs/globalfs/"
	collector = "garbage collection"
	scheduler = "scheduler"
	other     = "other"
)

// areas are tried in this order for each function of a stack, the innermost first: library work for an area
// counts for the area, too. System calls belong to their callers.
var areas = []area{
	{"network", []string{"net."}},
	{"TLS", []string{"crypto/"}},
	{"gRPC", []string{"google.golang.org/", "golang.org/x/net/"}},
	{"FUSE", []string{"github.com/hanwen/go-fuse/", module + "internal/mount."}},
	{"goleveldb", []string{"github.com/syndtr/goleveldb/"}},
	{"files", []string{"os."}},
	{"multicast", []string{module + "pkg/multicast"}},
	{"metadata", []string{module + "internal/meta", module + "internal/replica", module + "internal/ask", module + "internal/posix"}},
	{"links", []string{module + "internal/transport", module + "internal/driver", module + "internal/wire"}},
	{"rest of GlobalFS", []string{module}},
}

// Areas lists the areas of the costs.
func Areas() (names []string) {
	for _, a := range areas {
		names = append(names, a.name)
	}
	return append(names, scheduler, collector, other)
}

// collecting are functions that call only garbage collection, or assists of it.
var collecting = []string{"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcAssistAlloc", "runtime.gcStart", "runtime.gcMarkDone"}

// scheduling are functions of the runtime that put goroutines and threads to sleep and wake them up.
var scheduling = []string{
	"runtime.mcall", "runtime.mstart", "runtime.schedule", "runtime.findRunnable", "runtime.futex", "runtime.ready", "runtime.goready", "runtime.wakep",
	"runtime.park_m", "runtime.netpoll", "runtime.sysmon", "runtime.startm", "runtime.stopm", "runtime.usleep", "runtime.notewakeup", "runtime.exitsyscall",
	"runtime.reentersyscall", "runtime.entersyscall", "runtime.gopreempt_m", "runtime.goexit0",
}

// areaOf returns the area of a stack of functions, the innermost first.
func areaOf(stack []string) string {
	if slices.ContainsFunc(stack, func(f string) bool { return hasStart(f, collecting) }) {
		return collector
	}
	for _, f := range stack {
		if hasStart(f, scheduling) {
			return scheduler
		}
		if !strings.HasPrefix(f, "runtime.") {
			break
		}
	}
	for _, f := range stack {
		for _, a := range areas {
			if hasStart(f, a.starts) {
				return a.name
			}
		}
	}
	return other
}

func hasStart(function string, starts []string) bool {
	return slices.ContainsFunc(starts, func(s string) bool { return strings.HasPrefix(function, s) })
}

// areasOf divides a CPU time in the proportions of a profile.
func areasOf(data []byte, cpu float64) (map[string]float64, error) {
	p, err := profile.ParseData(data)
	if err != nil {
		return nil, err
	}
	times, total := map[string]float64{}, 0.0
	for _, s := range p.Sample {
		var stack []string
		for _, l := range s.Location {
			for _, line := range l.Line {
				stack = append(stack, line.Function.Name)
			}
		}
		t := float64(s.Value[len(s.Value)-1]) // nanoseconds: the last of the two values of each sample
		times[areaOf(stack)] += t
		total += t
	}
	for name := range times {
		times[name] *= cpu / total
	}
	return times, nil
}
