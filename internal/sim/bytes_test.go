package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// TestPrimCastBurst: one process multicasts at once more than a frame holds, up to the window of a link, and
// its leader stops in the middle.
func TestPrimCastBurst(t *testing.T) {
	var reach Reach
	seeds(t, 6, func(seed uint64) error {
		cfg, rng := config(seed, sizes(seed, 2, 3)...)
		w := everybody(&cfg, 1000, 0)
		w.Senders = w.Senders[rng.IntN(len(w.Senders)):][:1]
		w.Payload = 128 << 10
		if seed%2 == 0 {
			cfg.Faults = Faults{Every: 20 * time.Millisecond, Longest: 200 * time.Millisecond, Chase: 1, Stall: 1, MayCrash: func(p multicast.ProcessID) bool { return p != w.Senders[0] }}
		}
		return judge(cfg, w, primCast(1<<20), &reach)
	})
	t.Logf("reached: %+v", reach)
}

// little configures links with short frames and small windows, and a protocol with these limits.
func little(seed uint64, cfg *Config, p primcast.Config) primcast.Config {
	rng := rand.New(rand.NewPCG(seed, 12))
	p.MaxFrame = 1 << (4 + rng.IntN(8))
	p.WindowBytes = 1 << (7 + rng.IntN(5))
	cfg.MaxFrame = max(p.MaxFrame, longest)
	cfg.Window = 2 * (cfg.MaxFrame + p.WindowBytes)
	return p
}

// longest is an upper bound of the bytes of a packet beside a message with a short payload.
const longest = 200

// TestPrimCastLittle: frames are too short for the output of a step, and windows are full.
func TestPrimCastLittle(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, _ := primCastCuts(seed)
		w.Messages, w.Every = 3*w.Messages, w.Every/4
		cfg.Faults.Stall++
		cfg.Faults.Chase = 1
		w.SendersFinish = seed%2 == 0
		return judge(cfg, w, primCastWith(little(seed, &cfg, everything(seed))), &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Overflowed, Transferred, Chased)
}

// Frames and windows have limits: bytes beyond the window are lost, and the link restarts.
func TestFramesHaveALimit(t *testing.T) {
	cfg := Default()
	cfg.MaxFrame = 1
	require.Panics(t, func() { tickers(t, cfg) })
	cfg.MaxFrame, cfg.Window = 0, 2*3
	n := tickers(t, cfg)
	at := n.Now()
	n.processes[2].pausedUntil = at + 100*time.Millisecond
	n.Run(at + 200*time.Millisecond)
	require.Positive(t, n.Marks()[Overflowed])
	heard := after(n, 2, 1, at+100*time.Millisecond)
	require.LessOrEqual(t, heard[2].tick, heard[0].tick+2, "what the window takes arrives first")
	start := 0
	for start < len(heard) && heard[start].tick != 0 {
		start++
	}
	require.Less(t, start, 4)
	require.Greater(t, heard[start+1].tick, heard[start-1].tick+10, "then the link starts again, and what was sent in between is lost")
}
