package attach

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/trace"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Trace returns the recorder of the calls to servers.
func (c *Client) Trace() *trace.Recorder { return &c.traced.recorder }

// tracedCaller is a Caller that records its calls for traces.
type tracedCaller struct {
	Caller
	recorder trace.Recorder
	cluster  atomic.Pointer[topology.Cluster] // the newest
}

// Call implements Caller.
func (t *tracedCaller) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	if !t.recorder.On() {
		return t.Caller.Call(ctx, to, request)
	}
	began := time.Now()
	reply, err := t.Caller.Call(ctx, to, request)
	e := trace.Event{At: began, Took: time.Since(began)}
	t.describe(&e, to, request)
	if err != nil {
		e.Step += ", which fails"
	} else {
		e.Step += fmt.Sprintf(", the answer %d B", len(reply))
	}
	t.recorder.Add(e)
	return reply, err
}

// kinds are the names of the requests to replicas, with their articles.
var kinds = map[ask.Kind]string{
	ask.Query: "a query", ask.Update: "an update", ask.OpenSession: "the begin of a session", ask.RenewSession: "the renewal of a session",
	ask.CloseSession: "the end of a session", ask.AskStatus: "a query of the status", ask.Persist: "a request to sync", ask.Watch: "a watch",
}

// describe sets the description of a call.
func (t *tracedCaller) describe(e *trace.Event, to multicast.ProcessID, request []byte) {
	cluster := t.cluster.Load()
	for i := range cluster.Partitions {
		p := &cluster.Partitions[i]
		for _, r := range p.Replicas {
			if r.Process != to {
				continue
			}
			e.Partition = &p.ID
			e.Step = fmt.Sprintf("sends a request of %d B to %s", len(request), r.Server)
			if q, err := ask.DecodeRequest(request); err == nil {
				e.Step = fmt.Sprintf("sends %s of %d B to %s", kinds[q.Kind], len(request), r.Server)
				if q.Kind == ask.Update {
					e.Commands = []trace.Command{{Session: q.Session, Seq: q.Seq}}
				}
			}
			return
		}
	}
	for _, s := range cluster.Servers {
		if s.Storage == to {
			e.Step = fmt.Sprintf("sends a request for blocks of %d B to %s", len(request), s.Name)
			return
		}
	}
	e.Step = fmt.Sprintf("sends a request of %d B to process %d", len(request), to)
}
