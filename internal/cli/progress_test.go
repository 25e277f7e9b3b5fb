package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/progress"
)

// A line has the count, the rate and the remaining time of its step, or the elapsed time.
func TestPacer(t *testing.T) {
	start := time.Unix(1000, 0)
	after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	p := pacer{began: start}
	require.Equal(t, "waiting (3s)", p.line(progress.State{Doing: "waiting"}, after(3)))
	count := func(done, total uint64) progress.State {
		return progress.State{Doing: "copying", Unit: "blocks", Done: done, Total: total}
	}
	require.Equal(t, "copying: 100 of 500 blocks (20 %)", p.line(count(100, 500), after(10)), "done before: no rate")
	require.Equal(t, "copying: 200 of 500 blocks (40 %), 50/s", p.line(count(200, 500), after(12)), "too early for an estimate")
	require.Equal(t, "copying: 300 of 500 blocks (60 %), 50/s, about 4s left", p.line(count(300, 500), after(14)))
	require.Equal(t, "copying: 300 of 500 blocks (60 %), 25/s", p.line(count(300, 500), after(16)), "it stands still")
	require.Equal(t, "copying: 104 blocks", p.line(count(104, 0), after(17)), "another step")
	require.Equal(t, "copying: 109 blocks, 2.5/s", p.line(count(109, 0), after(19)))
	require.Equal(t, "copying: 600 of 500 blocks (100 %), 246/s", p.line(count(600, 500), after(21)), "the total is an estimate")
	require.Equal(t, "checking (22s)", p.line(progress.State{Doing: "checking"}, after(22)))
	require.Equal(t, "copying: 700 of 900 blocks (77 %)", p.line(count(700, 900), after(23)), "the step began before")
}

// A step that begins slowly, such as a move between regions, never shows a remaining time that is far too
// long.
func TestPacerOfASlowBeginning(t *testing.T) {
	start := time.Unix(1000, 0)
	p := pacer{began: start}
	const total, slow, perSecond = 10_000, 12, 100 // 12 seconds for the first inode, then 100 a second
	shown := 0
	for quarter := range 4 * 100 {
		now := start.Add(time.Duration(quarter) * 250 * time.Millisecond)
		done := uint64(0)
		if quarter >= 4*slow {
			done = 1 + uint64(quarter-4*slow)*perSecond/4
		}
		text := p.line(progress.State{Doing: "moving", Unit: "inodes", Done: done, Total: total}, now)
		require.LessOrEqual(t, len(p.marks), 2*maxMarks)
		_, estimate, ok := strings.Cut(text, "/s, about ")
		if !ok {
			continue
		}
		shown++
		left, err := time.ParseDuration(strings.TrimSuffix(estimate, " left"))
		require.NoError(t, err)
		right := float64(total-done) / perSecond
		require.InDelta(t, right, left.Seconds(), 0.4*right+1, text)
	}
	require.Greater(t, shown, 4*70, "an estimate is there most of the time")
}

// On a terminal there is one line with a bar. It is gone at the end.
func TestBar(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminal here: ", err)
	}
	defer terminal.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer screen.Close()
	require.NoError(t, unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 120}))

	meter := new(progress.Meter)
	meter.Count(4, "blocks", "copying")
	meter.Add(1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		display{after: time.Millisecond, redraw: time.Millisecond}.run(ctx, screen, func(context.Context) progress.State { return meter.State() })
	}()
	said := readUntil(t, terminal, "copying: 1 of 4 blocks (25 %)")
	require.Regexp(t, `\[=+>?-+\]`, said)
	meter.Count(0, "inodes", "looking")
	meter.Add(70)
	require.NotRegexp(t, `\[=+>?-*\] looking`, readUntil(t, terminal, "looking: 70 inodes"), "there is no length without a total")
	meter.Begin("checking")
	readUntil(t, terminal, "checking (")
	cancel()
	<-done
}

func readUntil(t *testing.T, from *os.File, want string) (said string) {
	t.Helper()
	buffer := make([]byte, 4096)
	for !strings.Contains(said, want) {
		n, err := from.Read(buffer)
		require.NoError(t, err)
		said += string(buffer[:n])
	}
	return said
}
