package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/test/cluster"
)

// usage is what all servers and mounts use together at one time.
type usage struct {
	At          float64 `json:"at_s"`
	ServerRSS   float64 `json:"servers_rss_mib"`
	MountRSS    float64 `json:"mounts_rss_mib"`
	Descriptors float64 `json:"descriptors"`
	Disk        float64 `json:"disk_mib"` // of all servers
}

const usageEvery = 10 * time.Second

// usages samples until ctx ends. Processes that do not run at the time count as nothing.
func (w *world) usages(ctx context.Context) (all []usage) {
	began := time.Now()
	ticker := time.NewTicker(usageEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return all
		case <-ticker.C:
		}
		u := usage{At: time.Since(began).Seconds()}
		for name, s := range w.cluster.Servers {
			rss, fds := used(s)
			u.ServerRSS += rss
			u.Descriptors += fds
			var disk unix.Statfs_t
			if unix.Statfs(filepath.Join(w.dir, "data", name), &disk) == nil {
				u.Disk += float64(disk.Blocks-disk.Bfree) * float64(disk.Bsize) / (1 << 20)
			}
		}
		for _, m := range w.mounts {
			rss, fds := used(m.Process)
			u.MountRSS += rss
			u.Descriptors += fds
		}
		all = append(all, u)
	}
}

// used returns the resident memory of a process in MiB, and the number of its descriptors.
func used(p *cluster.Process) (rss, fds float64) {
	pid := p.PID()
	if pid == 0 {
		return 0, 0
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
		if fields := bytes.Fields(text); len(fields) > 1 {
			pages, _ := strconv.ParseFloat(string(fields[1]), 64)
			rss = pages * float64(os.Getpagesize()) / (1 << 20)
		}
	}
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return rss, float64(len(open))
}

// longRun is the duration from which on a run must reach a plateau: dropped blocks are collected after ten
// minutes.
const longRun = 50 * time.Minute

// requirePlateau fails if the processes use a third more in the last quarter of a long run than in the one
// before, by the median: faults stop processes and fill disks for a while.
func (w *world) requirePlateau(all []usage) {
	quarter := len(all) / 4
	if quarter == 0 {
		return
	}
	for name, of := range map[string]func(u *usage) float64{
		"memory of servers in MiB": func(u *usage) float64 { return u.ServerRSS },
		"memory of mounts in MiB":  func(u *usage) float64 { return u.MountRSS },
		"descriptors":              func(u *usage) float64 { return u.Descriptors },
		"disk in MiB":              func(u *usage) float64 { return u.Disk },
	} {
		var medians []float64
		for i := range 4 {
			medians = append(medians, median(all[i*quarter:(i+1)*quarter], of))
		}
		w.t.Logf("%s, medians of the quarters: %.0f", name, medians)
		if *duration >= longRun {
			assert.LessOrEqual(w.t, medians[3], medians[2]*4/3, name)
		}
	}
}

func median(all []usage, of func(u *usage) float64) float64 {
	var values []float64
	for i := range all {
		values = append(values, of(&all[i]))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
