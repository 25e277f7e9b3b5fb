package server

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
)

// errNoTurn refuses a request whose turn does not come within its patience.
var errNoTurn = errors.New("the processors of this server are short, and the turn of this client did not come in time: try again")

const (
	// activeFor is the time for which a client counts as working after a request.
	activeFor = time.Second
	// sampleEvery is the time between two judgements of the processors.
	sampleEvery = 50 * time.Millisecond
	// growEvery is the time between two increases of the number of requests at a time.
	growEvery = 200 * time.Millisecond
	// shortFor is the time for which the processors still count as short after they were short.
	shortFor = time.Second
	// holdMost is the time after which a request gives up its turn, though it is not finished. A request that
	// waits for another partition or another client uses no processor. It is also the longest pause.
	holdMost = 100 * time.Millisecond
	// pauseFactor is the pause of a client after a request, in durations of the request. A partition has
	// three replicas or more: at three, the client has a request a third of the time together.
	pauseFactor = 8
	// mostSlots is the number of requests at a time above which a client is not limited any more.
	mostSlots = 64
	// perProcessor is the number of requests at a time, for each processor, of a usual client that gives way:
	// enough to keep the processors at work while others wait for disks and for other servers.
	perProcessor = 4
	// maxLanes is the number of remembered clients above which idle ones are forgotten.
	maxLanes = 4096
)

// contention makes clients give way while the processors of a server, or the turns of a replica there, are
// short and others work:
//
//   - of a narrow client (ask.Client.IsNarrow) the server executes one request at a time, and then pauses
//     (pauseFactor). It gives way to all others that are not narrow, and to those that use the server less
//     than half as much;
//   - of another bound client the server executes perProcessor requests at a time for each processor, without
//     a pause. It gives way to clients with the rights of root, and to those that use the server less than
//     half as much. A mount with few programs has no more requests at a time;
//   - a client with the rights of root never gives way, and its use is not measured.
//
// So two equal clients do not slow each other. When the processors are not short any more, the number of
// requests at a time grows slowly. A client that is alone is not limited, and neither is a client on an idle
// machine.
//
// Requests of all replicas and of the storage server count together: they share the processors. The other
// servers of the partitions count, too (neighbors.go).
type contention struct {
	isShort       func() bool // whether processors were short since the last call
	areTurnsShort func() bool // whether turns of replicas were short since the last call
	usual         int         // maximum number of concurrent requests of a usual client that gives way

	mu      sync.Mutex
	lanes   map[string]*lane // GUARDED_BY mu; by name of the client
	sampled time.Time        // GUARDED_BY mu
	short   time.Time        // GUARDED_BY mu; when the processors were short last
	grown   time.Time        // GUARDED_BY mu; when slots grew last
	slots   int              // GUARDED_BY mu; maximum number of concurrent requests of a client; above mostSlots: no limit
	here    pressure         // GUARDED_BY mu; the pressure of this server in the last sample
	all     pressure         // GUARDED_BY mu; the pressure of this server and the others in the last sample
	recent  [2]*lane         // GUARDED_BY mu; the client of the last request, and the last other client

	neighbors map[string]neighbor // GUARDED_BY mu; servers with other replicas of this server's partitions, by name
	there     pressure            // GUARDED_BY mu; the pressure of all neighbors
	learned   time.Time           // GUARDED_BY mu; when there was computed
}

// lane is the state of one client.
type lane struct {
	client      string
	narrow      bool
	lastRequest time.Time
	use         time.Duration // the client's use of the server, a sum that decays
	used        time.Time     // when use was computed
	running     int           // number of requests that have their turn
	resume      time.Time     // no turn begins before this time
	waiting     []chan struct{}
	timer       *time.Timer // begins a turn at resume; nil: not used yet
}

func newContention() *contention {
	return &contention{
		isShort: newProcessors().areShort, areTurnsShort: func() bool { return false }, usual: min(perProcessor*runtime.GOMAXPROCS(0), mostSlots), lanes: map[string]*lane{}, slots: mostSlots + 1,
		neighbors: map[string]neighbor{},
	}
}

// note records a request of a client with the rights of root, which needs no turn.
func (c *contention) note(client *ask.Client) {
	if client == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked(client)
}

// take waits until the turn of a request comes, at most for its patience. The caller calls done when the
// request is finished; further calls have no effect. Requests of clients that are not bounded, and requests
// of the only working client, need no turn.
func (c *contention) take(ctx context.Context, client *ask.Client, patience time.Duration) (done func(), err error) {
	if client.Bounds() == nil {
		c.note(client)
		return func() {}, nil
	}
	c.mu.Lock()
	l := c.asked(client)
	if began := l.lastRequest; len(l.waiting) == 0 && c.isAlone(l, began) {
		c.mu.Unlock()
		return sync.OnceFunc(func() { c.spend(l, time.Since(began)) }), nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	c.begin(l)
	c.mu.Unlock()
	select {
	case <-turn:
		return c.held(l), nil
	default:
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-turn:
		return c.held(l), nil
	case <-limit.C:
		err = errNoTurn
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(l.waiting, turn); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		return nil, err
	}
	c.end(l, 0) // the turn has come meanwhile
	return nil, err
}

// held returns the end of a turn that begins now.
func (c *contention) held(l *lane) (done func()) {
	began := time.Now()
	end := sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.end(l, time.Since(began))
	})
	timer := time.AfterFunc(holdMost, end)
	return func() {
		timer.Stop()
		end()
	}
}

// spend adds the duration of a request without a turn to the use of its client.
func (c *contention) spend(l *lane, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.decay(time.Now())
	l.use += min(took, holdMost)
}

// begin begins the turns that may begin. The caller holds mu.
func (c *contention) begin(l *lane) {
	now := time.Now()
	slots := mostSlots + 1
	if !c.isAlone(l, now) {
		c.sample(now)
		slots = c.slotsOf(l)
	}
	for len(l.waiting) > 0 && (slots > mostSlots || l.running < slots && !now.Before(l.resume)) {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.running++
	}
	if len(l.waiting) == 0 || l.running > 0 {
		return // no request waits, or the end of a turn will begin the next turn
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(l.resume), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.begin(l)
		})
	} else {
		l.timer.Reset(time.Until(l.resume))
	}
}

// end ends a turn. The caller holds mu.
func (c *contention) end(l *lane, took time.Duration) {
	now := time.Now()
	l.running--
	l.decay(now)
	l.use += took
	if l.narrow {
		l.resume = now.Add(min(pauseFactor*took, holdMost))
	}
	c.begin(l)
}

// isAlone reports whether only one client has worked lately. Then no samples are needed. The caller holds mu.
func (c *contention) isAlone(l *lane, now time.Time) bool {
	if there := c.others(now); there.hasOther(l.client) {
		return false
	}
	other := c.recent[0]
	if other == l {
		other = c.recent[1]
	}
	return !other.isActive(now)
}

// slotsOf returns the maximum number of concurrent requests of a client; above mostSlots: no limit. The
// caller holds mu.
func (c *contention) slotsOf(l *lane) int {
	other := c.all.least[0]
	if other.client == l.client {
		other = c.all.least[1]
	}
	isLess := other.client != "" && 2*other.use < l.use+c.there.of(l.client)
	switch {
	case l.narrow && (c.all.first || isLess):
		return c.slots
	case !l.narrow && isLess && c.slots <= mostSlots:
		return max(c.slots, c.usual)
	}
	return mostSlots + 1
}

// sample updates the pressure and the slots, if sampleEvery has passed since the last sample. The caller
// holds mu.
func (c *contention) sample(now time.Time) {
	if now.Sub(c.sampled) < sampleEvery {
		return
	}
	c.sampled = now
	there := c.others(now)
	processors, turns := c.isShort(), c.areTurnsShort() // each measures from call to call
	c.here = pressure{short: processors || turns}
	c.all = pressure{short: c.here.short || there.short, first: there.first}
	switch {
	case c.all.short:
		c.short, c.slots = now, 1
	case now.Sub(c.short) > shortFor && now.Sub(c.grown) >= growEvery && c.slots <= mostSlots:
		c.grown = now
		c.slots++
	}
	for _, l := range c.lanes {
		if !l.isActive(now) {
			continue
		}
		l.decay(now)
		c.here.first = c.here.first || !l.narrow
		c.here.add(rival{l.client, l.use})
		c.all.add(rival{l.client, l.use + there.of(l.client)})
	}
	c.all.first = c.all.first || c.here.first
	for _, one := range there.least {
		if !c.lanes[one.client].isActive(now) { // otherwise its use here was considered, too
			c.all.add(one)
		}
	}
}

// isActive reports whether a client works here; nil: it does not. The caller holds contention.mu.
func (l *lane) isActive(now time.Time) bool {
	return l != nil && (now.Sub(l.lastRequest) < activeFor || l.running > 0 || len(l.waiting) > 0)
}

// asked records a request of a client, and returns the state of the client. The caller holds mu.
func (c *contention) asked(client *ask.Client) *lane {
	l := c.lane(client)
	l.lastRequest = time.Now()
	if c.recent[0] != l {
		c.recent[0], c.recent[1] = l, c.recent[0]
	}
	return l
}

// lane returns the state of a client. The caller holds mu.
func (c *contention) lane(client *ask.Client) *lane {
	name := client.Owner()
	l := c.lanes[name]
	if l == nil {
		if len(c.lanes) >= maxLanes {
			c.forget(time.Now())
		}
		l = &lane{client: name}
		c.lanes[name] = l
	}
	l.narrow = client.IsNarrow() // a new certificate may have other users
	return l
}

// forget drops idle clients. The caller holds mu.
func (c *contention) forget(now time.Time) {
	for name, l := range c.lanes {
		if !l.isActive(now) && !now.Before(l.resume) {
			delete(c.lanes, name)
		}
	}
}

// decay reduces the use of a client with the time: after activeFor half of it is left.
func (l *lane) decay(now time.Time) {
	for ; l.use > 0 && now.Sub(l.used) >= activeFor; l.used = l.used.Add(activeFor) {
		l.use /= 2
	}
	if l.use == 0 {
		l.used = now
	}
}
