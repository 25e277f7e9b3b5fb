package driver

import (
	"bytes"
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// echoing answers each request after its record, and notes the goroutine of each action.
type echoing struct {
	stepping  atomic.Int32
	overlaps  atomic.Int32
	steps     atomic.Int32
	byCaller  atomic.Int32 // steps
	byRun     atomic.Int32 // appends
	frames    atomic.Int32
	most      atomic.Int32 // requests of a step
	sync      bool         // the log waits for the disk
	stores    bool         // the store waits for it
	watched   bool         // stacks are checked
	chatty    bool         // each step sends a frame to itself
	requested []turn.Call
}

func (e *echoing) Step(in *turn.Input, out *turn.Output) {
	if e.stepping.Add(1) > 1 {
		e.overlaps.Add(1)
	}
	defer e.stepping.Add(-1)
	e.steps.Add(1)
	if e.watched && bytes.Contains(debug.Stack(), []byte("(*Driver).Handle")) {
		e.byCaller.Add(1)
	}
	e.frames.Add(int32(len(in.Frames)))
	e.most.Store(max(e.most.Load(), int32(len(in.Requests))))
	e.requested = append(e.requested, in.Requests...)
	if len(e.requested) > 0 {
		out.Records = [][]byte{{1}}
	}
	if e.chatty {
		out.Frames = append(out.Frames, multicast.Frame{Peer: 1, Data: []byte{1}})
	}
}

func (e *echoing) Syncs(*turn.Output) bool { return e.stores }

func (e *echoing) Apply(*turn.Output) (replies []turn.Call, err error) {
	if e.stepping.Load() > 0 {
		e.overlaps.Add(1)
	}
	for _, call := range e.requested {
		replies = append(replies, turn.Call{Token: call.Token, Data: call.Data})
	}
	e.requested = nil
	return replies, nil
}

func (*echoing) Wake() time.Duration { return 0 }

func (e *echoing) Append([][]byte, bool) error {
	if e.watched && bytes.Contains(debug.Stack(), []byte("(*Driver).Run")) {
		e.byRun.Add(1)
	}
	return nil
}
func (*echoing) Sync() error         { return nil }
func (e *echoing) Synchronous() bool { return e.sync }

// arrivals are links with frames that a test makes arrive.
type arrivals struct {
	transport.Links
	waiting atomic.Int32
	notify  func(bool)
}

func (a *arrivals) Take(into []multicast.Frame, most int) []multicast.Frame {
	for n := 0; n < most && a.waiting.Load() > 0; n++ {
		a.waiting.Add(-1)
		into = append(into, multicast.Frame{Peer: 2, Data: []byte{1}})
	}
	return into
}
func (a *arrivals) Notify(f func(bool)) { a.notify = f }
func (*arrivals) Flush()                {}
func (*arrivals) Close() error          { return nil }

// running returns a driver that runs until the test ends.
func running(t *testing.T, e *echoing) (*Driver, *arrivals) {
	t.Helper()
	links := &arrivals{}
	d := New(1, e, links, e, NewSystemClock())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		steps := e.steps.Load()
		links.notify(true)
		_, err := d.Handle(context.Background(), nil, []byte("late"))
		require.ErrorIs(t, err, ErrStopped)
		require.Equal(t, steps, e.steps.Load(), "no turn follows the end of Run")
		require.Zero(t, e.overlaps.Load(), "one turn at a time")
	})
	require.NoError(t, d.Between(t.Context(), func() {})) // it has begun
	return d, links
}

func echo(t *testing.T, d *Driver) {
	t.Helper()
	answer, err := d.Handle(t.Context(), nil, []byte("request"))
	require.NoError(t, err)
	require.Equal(t, "request", string(answer))
}

// A goroutine with a request takes the turn by itself.
func TestCallerTakesTheTurn(t *testing.T) {
	e := &echoing{watched: true}
	d, _ := running(t, e)
	for range 100 {
		echo(t, d)
	}
	require.Positive(t, e.byCaller.Load())
}

// A log or a store that waits for the disk is written in the goroutine of Run: the caller may have other
// work.
func TestDiskIsAwaitedInRun(t *testing.T) {
	for _, e := range []*echoing{{sync: true, watched: true}, {stores: true, watched: true}} {
		d, _ := running(t, e)
		for range 100 {
			echo(t, d)
		}
		require.EqualValues(t, 100, e.byRun.Load())
	}
}

// A goroutine that has brought input is released, for any amount of work.
func TestCallerIsLetGo(t *testing.T) {
	e := &echoing{chatty: true}
	d, links := running(t, e)
	echo(t, d)
	links.notify(true)
}

// Requests that come while a turn waits for the disk are executed, also without another event.
func TestRequestsDuringASync(t *testing.T) {
	d, _ := running(t, &echoing{sync: true})
	for range 2000 {
		var working sync.WaitGroup
		for range 3 {
			working.Go(func() { echo(t, d) })
		}
		working.Wait()
	}
}

// No input waits for ever, from any goroutine, and with any work between the turns.
func TestNothingIsLeftBehind(t *testing.T) {
	for _, sync := range []bool{false, true} {
		all(t, &echoing{sync: sync})
	}
}

func all(t *testing.T, e *echoing) {
	const each = 300
	d, links := running(t, e)
	var working sync.WaitGroup
	for _, work := range []func(){
		func() { echo(t, d) },
		func() { echo(t, d) },
		func() { links.waiting.Add(1); links.notify(true) },
		func() { links.waiting.Add(1); links.notify(false) },
		func() { require.NoError(t, d.Between(t.Context(), func() {})) },
	} {
		working.Go(func() {
			for range each {
				work()
			}
		})
	}
	working.Wait()
	require.Eventually(t, func() bool { return e.frames.Load() == 2*each+1 }, time.Minute, time.Millisecond, "and the start of its own link")
}

// Requests beyond the bound of a turn are those of the next turns, in their order and without further input.
// One that is withdrawn before its turn never reaches the node.
func TestRequestsOfATurn(t *testing.T) {
	e := &echoing{}
	d := New(1, e, &arrivals{}, e, NewSystemClock())
	answers := make(waiter, 3*MostRequests+1)
	var last uint64
	for i := range cap(answers) {
		last = d.Begin(nil, []byte{byte(i)}, answers)
	}
	d.Withdraw(last)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for i := range cap(answers) - 1 {
		select {
		case a := <-answers:
			require.NoError(t, a.err)
			require.Equal(t, []byte{byte(i)}, a.reply)
		case <-time.After(10 * time.Second):
			require.FailNow(t, "a request waits for further input", "after %d answers", i)
		}
	}
	cancel()
	require.NoError(t, <-ended)
	require.EqualValues(t, MostRequests, e.most.Load())
	require.EqualValues(t, 3, e.steps.Load())
	require.Empty(t, answers)
}

// slow is a node that computes, and a log that waits for the disk.
type slow struct{ echoing }

func (s *slow) Step(in *turn.Input, out *turn.Output) {
	time.Sleep(2 * time.Millisecond)
	s.echoing.Step(in, out)
}

func (s *slow) Apply(out *turn.Output) ([]turn.Call, error) {
	time.Sleep(time.Millisecond)
	return s.echoing.Apply(out)
}

func (*slow) Append([][]byte, bool) error {
	time.Sleep(time.Second)
	return nil
}

// The time for which a driver has worked contains the steps and the deliveries, and no wait for the log.
func TestWorked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		node := &slow{echoing{sync: true}}
		d := New(1, node, &arrivals{}, node, NewSystemClock())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		require.NoError(t, d.Between(ctx, func() {}))
		time.Sleep(time.Second)
		before, began := d.Worked(), time.Now()
		for range 10 {
			echo(t, d)
		}
		require.GreaterOrEqual(t, time.Since(began), 10*time.Second)
		require.Equal(t, 30*time.Millisecond, d.Worked()-before)
		cancel()
		require.NoError(t, <-ended)
	})
}
