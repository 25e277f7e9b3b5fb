package region

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Caller sends requests to the storage servers. Package transport implements it.
type Caller interface {
	// Call sends a request to the Node of a server and returns its reply, which belongs to the caller. It
	// does not change request, and returns soon after ctx ends. After an error the server may or may not have
	// executed the request, and request may still be read; with a reply it is not read any more.
	Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error)
}

// suspicion is the time for which a server that did not answer is suspected: it is asked last.
const suspicion = 5 * time.Second

// patience is the number of times in a row that another server must answer before a server until that server
// is suspected.
const patience = 3

// The usual time of a server that has not answered yet, and the bounds of the wait before another server is
// asked, too.
const (
	firstUsual = 50 * time.Millisecond
	minUsual   = 5 * time.Millisecond
	maxUsual   = time.Second
)

// peers is a Caller that bounds the wait for each server, learns the usual time of each, and remembers the
// servers that did not answer. So a hung server delays one call and not all.
type peers struct {
	caller  Caller
	timeout time.Duration

	mu      sync.Mutex
	servers map[multicast.ProcessID]*peer // GUARDED_BY mu
}

// peer is the state of one server.
type peer struct {
	lastAnswer time.Time     // the time of the last answer that was not a failure of the server
	suspect    time.Time     // the end of the suspicion
	mean       time.Duration // the mean time until an answer; 0: not known
	deviation  time.Duration // the mean deviation from mean
	overtaken  int           // number of times in a row that another server answered before this one
}

func newPeers(caller Caller, timeout time.Duration) *peers {
	return &peers{caller: caller, timeout: timeout, servers: make(map[multicast.ProcessID]*peer)}
}

// peer returns the state of a server. The caller holds mu.
func (p *peers) peer(id multicast.ProcessID) *peer {
	s := p.servers[id]
	if s == nil {
		s = &peer{lastAnswer: time.Now()}
		p.servers[id] = s
	}
	return s
}

// call returns a good reply; ErrUnavailable if there was no reply; the error of ctx if that has ended; or the
// error that the server answered.
func (p *peers) call(ctx context.Context, to multicast.ProcessID, request []byte) (reply []byte, err error) {
	attempt, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	reply, err = p.caller.Call(attempt, to, request)
	if err != nil {
		return nil, p.unanswered(ctx, to, err)
	}
	err = replyErr(reply)
	p.answered(to, err)
	return reply, err
}

// try runs do on this server itself with the time limit of a call, since the own disk may hang, too.
func (p *peers) try(ctx context.Context, self multicast.ProcessID, do func(context.Context) error) error {
	attempt, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	err := do(attempt)
	if err != nil && attempt.Err() != nil {
		return p.unanswered(ctx, self, err)
	}
	p.answered(self, err)
	return err
}

// unanswered suspects a server after a call without a reply, and returns the error of the call. It does not
// suspect the server if the caller ended the wait, or if the server does not know the request.
func (p *peers) unanswered(ctx context.Context, to multicast.ProcessID, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case isUnknown(err):
		p.answered(to, nil) // it is of an older version
	default:
		p.suspect(to)
	}
	return fmt.Errorf("storage server %d: %w: %w", to, block.ErrUnavailable, err)
}

// suspect suspects a server from now on.
func (p *peers) suspect(id multicast.ProcessID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peer(id).suspect = time.Now().Add(suspicion)
}

// answered records an answer, which may be an error.
func (p *peers) answered(to multicast.ProcessID, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.peer(to)
	s.suspect, s.overtaken = time.Time{}, 0
	if err == nil || !errors.Is(err, errFailed) && !errors.Is(err, block.ErrUnavailable) {
		s.lastAnswer = time.Now()
	}
}

// order returns servers with the suspected ones at the end.
func (p *peers) order(servers []multicast.ProcessID) []multicast.ProcessID {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	suspected := func(id multicast.ProcessID) int {
		if s := p.servers[id]; s != nil && now.Before(s.suspect) {
			return 1
		}
		return 0
	}
	if !slices.ContainsFunc(servers, func(id multicast.ProcessID) bool { return suspected(id) == 1 }) {
		return servers
	}
	servers = slices.Clone(servers)
	slices.SortStableFunc(servers, func(a, b multicast.ProcessID) int { return suspected(a) - suspected(b) })
	return servers
}

// usual returns the time within which a server usually answers. Later, the next server is asked, too.
func (p *peers) usual(id multicast.ProcessID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(p.peer(id).usual(), p.timeout)
}

func (s *peer) usual() time.Duration {
	if s.mean == 0 {
		return firstUsual
	}
	return min(max(s.mean+4*s.deviation, minUsual), maxUsual)
}

// recordTime records the time of a server's answer.
func (p *peers) recordTime(id multicast.ProcessID, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peer(id).note(d)
}

// note updates the mean and the deviation with the weights of TCP (RFC 6298). About one answer of a hundred
// takes longer than the mean and four deviations.
func (s *peer) note(d time.Duration) {
	if s.mean == 0 {
		s.mean, s.deviation = max(d, 1), d/2
		return
	}
	s.deviation += ((s.mean - d).Abs() - s.deviation) / 4
	s.mean += (d - s.mean) / 8
}

// recordOvertaken records that another server answered first, when this one had not answered for d.
func (p *peers) recordOvertaken(id multicast.ProcessID, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.peer(id)
	if d >= s.usual() {
		s.note(d) // it takes at least this time
		s.overtake()
	}
}

// recordAbandoned records that a late server had not answered when the request was complete without it.
func (p *peers) recordAbandoned(id multicast.ProcessID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peer(id).overtake()
}

// overtake counts an answer of another server before this one, and suspects the server after several.
func (s *peer) overtake() {
	if s.overtaken++; s.overtaken >= patience {
		s.overtaken, s.suspect = 0, time.Now().Add(suspicion)
	}
}

// idle returns those of servers that have not answered for d.
func (p *peers) idle(servers []multicast.ProcessID, d time.Duration) []multicast.ProcessID {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	var idle []multicast.ProcessID
	for _, id := range servers {
		if now.Sub(p.peer(id).lastAnswer) >= d {
			idle = append(idle, id)
		}
	}
	return idle
}

// forget removes the state of all servers that are not in but. It adds a state for each server in but that
// has none, as if this server had just answered.
func (p *peers) forget(but []multicast.ProcessID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.servers {
		if !slices.Contains(but, id) {
			delete(p.servers, id)
		}
	}
	for _, id := range but {
		p.peer(id)
	}
}
