package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/trace"
)

// TraceStarted is the answer to TraceStart.
type TraceStarted struct {
	Now  time.Time `json:"now"`  // the server's clock when it answered
	Boot string    `json:"boot"` // of the kernel; empty: unknown
}

// Traced is the recording of a server, or the error of a call.
type Traced struct {
	Server    string
	Region    topology.Region
	Recording trace.Recording
	// Ahead is the estimated difference of the server's clock to the clock of this process. The true
	// difference is between Ahead-Within and Ahead+Within.
	Ahead, Within time.Duration
	Err           error
}

// Tracing is a recording that all servers make at the same time.
type Tracing struct {
	access  *Access
	servers []topology.Server
	traced  []Traced
}

// Trace makes all servers record the turns of their replicas for at most d. The servers require the
// certificate of an admin.
func (a *Access) Trace(ctx context.Context, d time.Duration) *Tracing {
	t := &Tracing{access: a}
	for _, s := range a.Cluster().Servers {
		if s.State != topology.StorageLeft {
			t.servers = append(t.servers, s)
			t.traced = append(t.traced, Traced{Server: s.Name, Region: s.Region})
		}
	}
	t.each(ctx, func(ctx context.Context, address string, of *Traced) error {
		for n := range clockCalls {
			var started TraceStarted
			sent := time.Now()
			if err := ask(ctx, a.client, address, &Request{Op: TraceStart, TraceFor: d}, &started); err != nil {
				return err
			}
			within := time.Since(sent) / 2
			if started.Boot != "" && started.Boot == server.BootID() { // they share a clock
				return nil
			}
			if n == 0 || within < of.Within {
				of.Ahead, of.Within = started.Now.Sub(sent.Add(within)), within
			}
		}
		return nil
	})
	return t
}

// clockCalls is the number of calls that estimate the clock of a server. The shortest one counts.
const clockCalls = 4

// Stop ends the recording, and returns the recordings of all servers.
func (t *Tracing) Stop(ctx context.Context) []Traced {
	t.each(ctx, func(ctx context.Context, address string, of *Traced) error {
		return ask(ctx, t.access.client, address, &Request{Op: TraceStop}, &of.Recording)
	})
	return t.traced
}

// each calls do for all servers without an error at once.
func (t *Tracing) each(ctx context.Context, do func(ctx context.Context, address string, of *Traced) error) {
	ctx, cancel := context.WithTimeout(ctx, t.access.cfg.Timeout)
	defer cancel()
	var asking sync.WaitGroup
	for i := range t.servers {
		if of := &t.traced[i]; of.Err == nil {
			asking.Go(func() { of.Err = do(ctx, t.servers[i].Address, of) })
		}
	}
	asking.Wait()
}
