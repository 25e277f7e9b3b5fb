package sim

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/skeen"
)

// skeenProtocol must have forgotten everything at rest, except the numbers of the sent messages.
var skeenProtocol = Protocol{
	New: func(self multicast.ProcessID, groups []multicast.Group, _ multicast.Progress) (multicast.Core, error) {
		return skeen.New(skeen.Config{Self: self, Groups: groups})
	},
	AtRest: func(core multicast.Core) error {
		c := core.(*skeen.Core)
		if c.Pending() > 0 || c.Stats().Malformed > 0 {
			return fmt.Errorf("%d messages are pending, %+v", c.Pending(), c.Stats())
		}
		return nil
	},
}

// skeenRun draws a run of Skeen's protocol with the faults that it tolerates.
func skeenRun(seed uint64) (Config, Workload) {
	cfg, rng := config(seed, sizes(seed, 8, 1)...)
	cfg.Faults = Faults{Every: 20 * time.Millisecond, Longest: 100 * time.Millisecond, Pause: 1, Stall: 1, Jump: 1}
	w := everybody(&cfg, 10+rng.IntN(40), time.Duration(1+rng.IntN(20))*time.Millisecond)
	w.AfterPercent, w.AgainPercent, w.Payload = 10*rng.IntN(3), 10*rng.IntN(3), 20
	return cfg, w
}

func TestSkeen(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w := skeenRun(seed)
		return judge(cfg, w, skeenProtocol, &reach)
	})
}

// TestSkeenDoesNotRestart: its records are empty, so a restart loses messages that were on the way.
func TestSkeenDoesNotRestart(t *testing.T) {
	caught := 0
	for seed := uint64(1); seed <= 50; seed++ {
		cfg, w := skeenRun(seed)
		cfg.Faults.Crash = 4
		r, err := Run(cfg, w, skeenProtocol)
		require.NoError(t, err)
		if len(r.Violations) > 0 {
			caught++
		}
	}
	require.Greater(t, caught, 25)
}

var errNo = errors.New("no")

func TestRunGivesTheErrorOfACore(t *testing.T) {
	cfg := Default()
	_, err := Run(cfg, everybody(&cfg, 1, 1), Protocol{New: func(multicast.ProcessID, []multicast.Group, multicast.Progress) (multicast.Core, error) {
		return nil, errNo
	}})
	require.ErrorIs(t, err, errNo)
}
