package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/driver"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/trace"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Trace returns the recorder of the turns of all replicas on this server.
func (s *Server) Trace() *trace.Recorder { return &s.recorder }

// tracer records the turns of a replica as events: a driver.Observer.
type tracer struct {
	server    *Server
	partition uint16
	updates   map[uint64]trace.Command // updates by the token of their request, until they are answered
}

// maxTraced bounds tracer.updates, because requests that were withdrawn are never answered.
const maxTraced = 1 << 14

// Observes implements driver.Observer.
func (t *tracer) Observes() bool {
	on := t.server.recorder.On()
	if !on && len(t.updates) > 0 {
		clear(t.updates)
	}
	return on
}

// Turn implements driver.Observer. It records no turn without an event.
func (t *tracer) Turn(at *driver.Moments, in *turn.Input, out *turn.Output, replies []turn.Call) {
	if len(in.Frames) == 0 && len(in.Requests) == 0 && len(out.Deliveries) == 0 && len(out.Frames) == 0 && len(out.Early) == 0 {
		return
	}
	commands := t.take(in.Requests)
	t.add(at.Begun, at.Stepped.Sub(at.Begun), commands, t.input(in, len(commands)))
	if text := t.frames("sends early ", out.Early); text != "" {
		t.add(at.Stepped, 0, commands, text)
	}
	if len(out.Records) > 0 {
		t.add(at.Stepped, at.Logged.Sub(at.Stepped), commands, records(out))
	}
	if text := t.frames("sends ", out.Frames); text != "" {
		t.add(at.Logged, at.Sent.Sub(at.Logged), commands, text)
	}
	t.deliveries(at, out.Deliveries)
	for _, answered := range [][]turn.Call{out.Replies, out.Persisted, replies} {
		for _, r := range answered {
			if c, known := t.updates[r.Token]; known {
				delete(t.updates, r.Token)
				t.add(at.Executed, 0, []trace.Command{c}, "answers the mount")
			}
		}
	}
}

func (t *tracer) add(at time.Time, took time.Duration, commands []trace.Command, step string) {
	t.server.recorder.Add(trace.Event{At: at, Took: took, Partition: &t.partition, Commands: commands, Step: step})
}

// take remembers the updates among the requests, and returns their commands.
func (t *tracer) take(requests []turn.Call) (commands []trace.Command) {
	for _, call := range requests {
		q, err := ask.DecodeRequest(call.Data)
		if err != nil || q.Kind == ask.AskStatus || q.Kind == ask.Watch || len(t.updates) >= maxTraced {
			continue
		}
		c := trace.Command{Session: q.Session, Seq: q.Seq}
		t.updates[call.Token] = c
		commands = append(commands, c)
	}
	return commands
}

// input describes the input of a turn in words.
func (t *tracer) input(in *turn.Input, takes int) string {
	var parts []string
	if takes > 0 {
		parts = append(parts, "takes "+count(takes, "request"))
	}
	if text := t.frames("receives ", in.Frames); text != "" {
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "takes a turn by time"
	}
	return strings.Join(parts, ", ")
}

// frames describes frames to or from other processes, with the names of their servers; empty: there are none.
func (t *tracer) frames(verb string, frames []multicast.Frame) string {
	hosts := t.server.plan.Load().Hosts()
	var peers []string
	for _, f := range frames {
		if host := hosts[f.Peer]; host != nil && host.Name != t.server.cfg.Name {
			peers = append(peers, fmt.Sprintf("%s %d B", host.Name, len(f.Data)))
		}
	}
	if len(peers) == 0 {
		return ""
	}
	return verb + strings.Join(peers, ", ")
}

// count returns a number with a noun, in the plural if necessary.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// records describes the records of a step in words.
func records(out *turn.Output) string {
	size := 0
	for _, r := range out.Records {
		size += len(r)
	}
	text := fmt.Sprintf("logs %s, %d B", count(len(out.Records), "record"), size)
	if out.Sync {
		text += ", synced"
	}
	return text
}

// deliveries records that updates were executed.
func (t *tracer) deliveries(at *driver.Moments, delivered []multicast.Delivery) {
	var executed, begun []trace.Command
	for i := range delivered {
		q, done, found := replica.UpdateIn(delivered[i].Payload)
		switch c := (trace.Command{Session: q.Session, Seq: q.Seq}); {
		case found && done:
			executed = append(executed, c)
		case found:
			begun = append(begun, c)
		}
	}
	took := at.Executed.Sub(at.Sent)
	if len(executed) > 0 {
		t.server.recorder.Add(trace.Event{
			At: at.Sent, Took: took, Partition: &t.partition, Commands: executed, Executes: true,
			Step: "executes " + count(len(executed), "update"),
		})
	}
	if len(begun) > 0 {
		t.add(at.Sent, took, begun, "begins "+count(len(begun), "update")+" of several partitions")
	}
	if len(executed)+len(begun) == 0 && len(delivered) > 0 {
		t.add(at.Sent, took, nil, "executes other entries: "+strconv.Itoa(len(delivered)))
	}
}
