package sim

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/heron"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// heronRun puts package heron on the processes of a run of TRAM, and judges linearizability.
type heronRun struct {
	core    heron.Config // without Self, Groups and App
	objects int          // of each group
	run     *tramRun
	answers map[multicast.MessageID]map[multicast.GroupID]heronAnswer // the first of each group
	first   map[multicast.MessageID]time.Duration                     // when a response of each group was there
}

type heronAnswer struct {
	body []byte
	at   time.Duration
}

// heronProcess is the upper layer of a process.
type heronProcess struct {
	run     *heronRun
	process *tramProcess
	core    *heron.Core
	mine    []fabric.Completion
	out     heron.Output
	memory  *coherent
}

// hashes is an application: a request has the objects that it reads, and the number of those that it writes
// (the first ones). The new value of an object is a hash of the request and all values that it read.
type hashes struct{ objects int }

// Owner implements heron.Application.
func (h hashes) Owner(id heron.ObjectID) multicast.GroupID { return multicast.GroupID(id >> 32) }

func decodeHashes(payload []byte) (ids []heron.ObjectID, writes int) {
	for b := payload[9:]; len(b) > 0; b = b[8:] {
		ids = append(ids, heron.ObjectID(binary.LittleEndian.Uint64(b)))
	}
	return ids, int(payload[8])
}

// Reads implements heron.Application.
func (h hashes) Reads(_ multicast.GroupID, payload []byte) []heron.ObjectID {
	ids, _ := decodeHashes(payload)
	return ids
}

// Execute implements heron.Application.
func (h hashes) Execute(group multicast.GroupID, payload []byte, get func(heron.ObjectID) []byte) (writes []heron.Write, response []byte) {
	ids, count := decodeHashes(payload)
	sum := fnv.New64a()
	sum.Write(payload)
	for _, id := range ids {
		v := get(id)
		sum.Write([]byte{byte(len(v))})
		sum.Write(v)
	}
	response = binary.LittleEndian.AppendUint64(nil, sum.Sum64())
	for i, id := range ids[:count] {
		if h.Owner(id) == group {
			value := append([]byte{byte(i)}, response...)
			writes = append(writes, heron.Write{ID: id, Value: slices.Repeat(value, 1+int(sum.Sum64()%5))})
		}
	}
	return writes, response
}

// payload draws a request to groups.
func (h *heronRun) payload(rng *rand.Rand, dest []multicast.GroupID) []byte {
	var ids []uint64
	for _, g := range dest {
		for range 1 + rng.IntN(2) {
			id := uint64(g)<<32 | uint64(1+rng.IntN(h.objects))
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	b := binary.LittleEndian.AppendUint64(nil, rng.Uint64())
	b = append(b, byte(rng.IntN(len(ids)+1)))
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint64(b, id)
	}
	return b
}

// start puts a core on a process.
func (h *heronRun) start(p *tramProcess) (*heronProcess, error) {
	h.run = p.run
	cfg := h.core
	cfg.Self, cfg.Groups, cfg.App = p.id, p.run.groups, hashes{h.objects}
	core, err := heron.New(cfg)
	if err != nil {
		return nil, err
	}
	x := &heronProcess{run: h, process: p, core: core}
	for i, region := range core.Regions() {
		m, err := p.endpoint.Register(region.ID, region.Size)
		if err != nil {
			return nil, err
		}
		if i == 0 { // the objects, which the process writes itself
			x.memory = &coherent{Memory: m, shadow: make([]byte, region.Size)}
			m = x.memory
		}
		core.Attach(region.ID, m)
	}
	return x, nil
}

// split takes the completions of this layer, and returns the others.
func (x *heronProcess) split(all []fabric.Completion) (others []fabric.Completion) {
	x.mine = nil
	for _, c := range all {
		if heron.Owns(c.Region) {
			x.mine = append(x.mine, c)
		} else {
			others = append(others, c)
		}
	}
	return others
}

// step executes the deliveries of a step of TRAM. The step ends at a time.
func (x *heronProcess) step(out *tram.Output, ends time.Duration) {
	x.out = heron.Output{}
	x.core.Step(&heron.Input{Now: x.process.run.net.Now(), Deliveries: slices.Clone(out.Deliveries), Completions: x.mine}, &x.out)
	out.Rights = append(out.Rights, x.out.Rights...)
	x.memory.publish(x.process, ends)
}

// end posts the operations and notes the responses.
func (x *heronProcess) end() {
	r := x.process.run
	if err := x.process.endpoint.Post(x.out.Ops...); err != nil {
		r.errs = append(r.errs, err)
	}
	for _, a := range x.out.Responses {
		h := x.run
		if h.answers[a.ID] == nil {
			h.answers[a.ID] = map[multicast.GroupID]heronAnswer{}
		}
		g := x.process.group.ID
		if old, ok := h.answers[a.ID][g]; ok {
			if !slices.Equal(old.body, a.Body) {
				r.errs = append(r.errs, fmt.Errorf("process %d answers %v differently from its group", x.process.id, a.ID))
			}
			continue
		}
		h.answers[a.ID][g] = heronAnswer{a.Body, r.net.Now()}
		if m := r.history.Multicasts[r.multicasts[a.ID]]; len(h.answers[a.ID]) == len(m.Dest) {
			h.first[a.ID] = r.net.Now()
		}
	}
}

// coherent is memory that its owner writes while others read it: the parts of a write become visible to them
// in any order, before the step ends.
type coherent struct {
	fabric.Memory
	shadow []byte
	writes []coherentWrite
}

type coherentWrite struct {
	at   int
	data []byte
}

// Load implements fabric.Memory: the owner sees its own writes at once.
func (c *coherent) Load(at int, into []byte) { copy(into, c.shadow[at:at+len(into)]) }

// Store implements fabric.Memory.
func (c *coherent) Store(at int, data []byte) {
	copy(c.shadow[at:], data)
	c.writes = append(c.writes, coherentWrite{at, slices.Clone(data)})
}

// publish makes the writes of a step visible until a time, one after the other.
func (c *coherent) publish(p *tramProcess, until time.Duration) {
	r := p.run
	from := r.net.Now()
	for i, w := range c.writes {
		to := from + (until-from)/time.Duration(len(c.writes)-i)
		for at := 0; at < len(w.data); at += 8 {
			part := w.data[at:min(at+8, len(w.data))]
			r.net.Schedule(r.between(from, to), func() { c.Memory.Store(w.at+at, part) })
		}
		from = to
	}
	c.writes = nil
}

// judge compares all responses and final values with an execution of the requests one after the other, in an
// order that has the orders of all logs and real time.
func (h *heronRun) judge() (errs []error) {
	order, err := h.order()
	if err != nil {
		return []error{err}
	}
	app := hashes{h.objects}
	values := map[heron.ObjectID][]byte{}
	get := func(id heron.ObjectID) []byte { return values[id] }
	for _, m := range order {
		var writes []heron.Write
		for _, g := range m.Dest {
			w, response := app.Execute(g, m.Payload, get)
			writes = append(writes, w...)
			if a, ok := h.answers[m.ID][g]; !ok {
				errs = append(errs, fmt.Errorf("nobody in group %d answers %v", g, m.ID))
			} else if !slices.Equal(a.body, response) {
				errs = append(errs, fmt.Errorf("group %d answers %v with %x at %v, the model with %x", g, m.ID, a.body, a.at, response))
			}
		}
		for _, w := range writes {
			values[w.ID] = w.Value
		}
	}
	for _, id := range h.run.ids {
		p := h.run.processes[id]
		for i := 1; p.up && i <= h.objects; i++ {
			object := heron.ObjectID(uint64(p.group.ID)<<32 | uint64(i))
			if got := p.upper.core.Get(object); !slices.Equal(got, values[object]) {
				errs = append(errs, fmt.Errorf("process %d has %x in object %d, the model %x", id, got, i, values[object]))
			}
		}
	}
	return errs
}

// order gives the delivered requests in an order that extends the orders of all logs and real time.
func (h *heronRun) order() ([]multicast.Message, error) {
	r := h.run
	logs := map[multicast.GroupID]map[multicast.Timestamp]multicast.MessageID{}
	messages := map[multicast.MessageID]multicast.Message{}
	for _, x := range r.deliveries {
		if logs[x.group] == nil {
			logs[x.group] = map[multicast.Timestamp]multicast.MessageID{}
		}
		logs[x.group][x.Final] = x.ID
		messages[x.ID] = x.Message
	}
	waits, next := map[multicast.MessageID]int{}, map[multicast.MessageID][]multicast.MessageID{}
	edge := func(a, b multicast.MessageID) {
		waits[b]++
		next[a] = append(next[a], b)
	}
	for _, log := range logs {
		var places []multicast.Timestamp
		for place := range log {
			places = append(places, place)
		}
		slices.Sort(places)
		for i := 1; i < len(places); i++ {
			edge(log[places[i-1]], log[places[i]])
		}
	}
	for a, end := range h.first {
		for b := range messages {
			if r.history.Multicasts[r.multicasts[b]].At > end {
				edge(a, b)
			}
		}
	}
	var ready, done []multicast.MessageID
	for id := range messages {
		if waits[id] == 0 {
			ready = append(ready, id)
		}
	}
	for len(ready) > 0 {
		id := ready[0]
		ready = ready[1:]
		done = append(done, id)
		for _, b := range next[id] {
			if waits[b]--; waits[b] == 0 {
				ready = append(ready, b)
			}
		}
	}
	if len(done) < len(messages) {
		return nil, fmt.Errorf("%d of %d requests have no order that extends their logs and real time", len(messages)-len(done), len(messages))
	}
	order := make([]multicast.Message, 0, len(done))
	for _, id := range done {
		order = append(order, messages[id])
	}
	return order, nil
}
