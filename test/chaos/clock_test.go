package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// clocksVariable names the directory with the clocks of the servers, see testdata/clock.go.
const clocksVariable = "CHAOS_CLOCKS"

// overlayClock writes an overlay for go build with the clock of testdata.
func overlayClock(dir string) (path string, err error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return "", err
	}
	overlay := map[string]map[string]string{"Replace": {
		filepath.Join(root, "internal", "driver", "clock.go"): filepath.Join(root, "test", "chaos", "testdata", "clock.go"),
	}}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// stepServer steps the clock of one server forward or backward, and back.
func (a *adversary) stepServer(sign int) func() fault {
	return func() fault {
		s, by := a.server(), sign*(1+a.rng.IntN(20))
		set := func(seconds int) error {
			at := filepath.Join(a.clocks, s.Name)
			if err := os.WriteFile(at+".new", []byte(strconv.Itoa(seconds)), 0o600); err != nil {
				return err
			}
			return os.Rename(at+".new", at)
		}
		return fault{
			name:  fmt.Sprintf("clock of %s by %ds", s.Name, by),
			begin: func(context.Context) error { return set(by) },
			end:   func(context.Context) error { return set(0) },
		}
	}
}

// stepClock steps the clock of the whole machine, and back.
func (a *adversary) stepClock() fault {
	by := time.Duration(1+a.rng.IntN(20)) * time.Second
	if a.rng.IntN(2) == 0 {
		by = -by
	}
	return fault{
		name:  fmt.Sprintf("clock by %v", by),
		begin: func(context.Context) error { return step(by) },
		end:   func(context.Context) error { return step(-by) },
	}
}

// step steps the machine's clock by a duration.
func step(by time.Duration) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	then := unix.NsecToTimespec(now.Nano() + int64(by))
	return unix.ClockSettime(unix.CLOCK_REALTIME, &then)
}
