package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/bench/memory"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of a run.
type Config struct {
	Program     []string // starts Replica
	Providers   []string
	Groups      int // of three replicas, in a tree with two children each
	Destination int // groups of each message
	Messages    int // of each client
	Outstanding int // of each client
	Payload     int
	Spin        time.Duration
	Suspect     time.Duration // without progress, a leader is replaced
	Kill        bool          // the leader of the root, when half of a member's messages is delivered
	Progress    func(what string)
}

const (
	members  = 3
	patience = 2 * time.Minute
)

// Validate names the field that is wrong.
func (c *Config) Validate() error {
	for _, p := range c.Providers {
		if err := memory.CheckProvider(p); err != nil {
			return err
		}
	}
	switch {
	case c.Groups < 1 || c.Groups > 20:
		return fmt.Errorf("%d groups: give 1 to 20", c.Groups)
	case c.Destination < 1 || c.Destination > c.Groups:
		return fmt.Errorf("messages to %d of %d groups: give at least 1, and not more than there are", c.Destination, c.Groups)
	case c.Messages < 2 || c.Messages > 1_000_000:
		return fmt.Errorf("%d messages of each client: give 2 to 1000000", c.Messages)
	case c.Outstanding < 1:
		return fmt.Errorf("%d messages outstanding: give at least 1", c.Outstanding)
	case c.Payload < 0 || c.Payload > 1<<16:
		return fmt.Errorf("a payload of %d bytes: give 0 to %d", c.Payload, 1<<16)
	case c.Spin < 0 || c.Suspect <= 0:
		return fmt.Errorf("spin %v, suspect after %v: give positive durations", c.Spin, c.Suspect)
	}
	return nil
}

// Run measures all providers.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &Report{Groups: c.Groups, Destination: c.Destination, Outstanding: c.Outstanding, Payload: c.Payload, Suspect: c.Suspect}
	for _, p := range c.Providers {
		c.Progress(p)
		point, err := c.measure(ctx, p)
		if err != nil {
			return r, fmt.Errorf("provider %s: %w", p, err)
		}
		r.Points = append(r.Points, point)
	}
	return r, nil
}

// process is a replica as the parent sees it.
type process struct {
	spec    spec
	command *exec.Cmd
	in      io.WriteCloser
	lines   chan line // closed at its end
	leads   atomic.Bool
	killed  bool
	report  line
}

// specs describes all replicas.
func (c *Config) specs(dir, provider string) (all []spec) {
	parents := map[multicast.GroupID]multicast.GroupID{}
	var groups []multicast.Group
	for g := range multicast.GroupID(c.Groups) {
		group := multicast.Group{ID: g}
		for i := range multicast.ProcessID(members) {
			group.Members = append(group.Members, multicast.ProcessID(members*g)+i+1)
		}
		if groups = append(groups, group); g > 0 {
			parents[g] = (g - 1) / 2
		}
	}
	for _, g := range groups {
		for _, id := range g.Members {
			all = append(all, spec{
				Memory: memory.Config{Dir: dir, Provider: provider, Self: fabric.NodeID(id), Spin: c.Spin},
				Groups: groups, Parents: parents, Group: g.ID, Messages: uint64(c.Messages), Outstanding: c.Outstanding,
				Destination: c.Destination, Payload: c.Payload, Suspect: c.Suspect,
			})
		}
	}
	return all
}

// measure runs all replicas with one provider.
func (c *Config) measure(ctx context.Context, provider string) (p Point, err error) {
	dir, err := os.MkdirTemp("", "globalfs-tram-")
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := memory.Prepare(dir, members*c.Groups); err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all []*process
	defer func() {
		for _, child := range all {
			child.end()
		}
	}()
	for _, s := range c.specs(dir, provider) {
		child, err := c.spawn(ctx, s)
		if err != nil {
			return p, err
		}
		all = append(all, child)
	}
	return c.load(ctx, provider, all)
}

// load runs the load, and judges it.
func (c *Config) load(ctx context.Context, provider string, all []*process) (p Point, err error) {
	if err := each(all, func(child *process) error { return child.await(ctx, "ready") }); err != nil {
		return p, err
	}
	start := time.Now()
	if err := each(all, (*process).next); err != nil {
		return p, err
	}
	if err := all[1].await(ctx, "half"); err != nil {
		return p, fmt.Errorf("replica %d: %w", all[1].spec.Memory.Self, err)
	}
	killedAt := time.Now()
	if c.Kill && !killLeader(all) {
		return p, errors.New("nobody leads the root at the moment of the kill")
	}
	if err := each(all, func(child *process) error { return child.await(ctx, "done") }); err != nil {
		return p, err
	}
	took := time.Since(start)
	if err := each(all, (*process).next); err != nil {
		return p, err
	}
	if err := each(all, func(child *process) error { return child.await(ctx, "report") }); err != nil {
		return p, err
	}
	return c.judge(provider, all, killedAt, took)
}

// killLeader kills the leader of the root, and reports whether there was one.
func killLeader(all []*process) bool {
	for _, child := range all {
		if child.spec.Group == 0 && child.leads.Load() {
			child.kill()
			return true
		}
	}
	return false
}

// each does something with all processes that live.
func each(all []*process, do func(*process) error) error {
	for _, child := range all {
		if child.killed {
			continue
		}
		if err := do(child); err != nil {
			return fmt.Errorf("replica %d: %w", child.spec.Memory.Self, err)
		}
	}
	return nil
}

// spawn starts a replica. It ends with its input, and so with the parent.
func (c *Config) spawn(ctx context.Context, s spec) (*process, error) {
	p := &process{spec: s, command: exec.CommandContext(ctx, c.Program[0], c.Program[1:]...), lines: make(chan line, 4)}
	p.command.Stderr = os.Stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		for decoder := json.NewDecoder(out); ; {
			var l line
			if decoder.Decode(&l) != nil {
				return // it has ended
			}
			if l.Event == "leads" || l.Event == "follows" {
				p.leads.Store(l.Event == "leads")
				continue
			}
			p.lines <- l // a replica has four of them
		}
	}()
	return p, json.NewEncoder(p.in).Encode(s)
}

// await waits for a line.
func (p *process) await(ctx context.Context, event string) error {
	for {
		select {
		case l, ok := <-p.lines:
			switch {
			case !ok:
				return fmt.Errorf("it has ended before it was %s", event)
			case l.Event == event:
				p.report = l
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("it was not %s: %w", event, ctx.Err())
		}
	}
}

// next lets a replica go on.
func (p *process) next() error {
	_, err := io.WriteString(p.in, "\n")
	return err
}

// kill ends a replica with SIGKILL.
func (p *process) kill() {
	p.killed = true
	_ = p.command.Process.Kill() // it may have ended
}

func (p *process) end() {
	_ = p.in.Close() // it may have ended
	if !p.killed {
		p.kill()
	}
	for range p.lines { // until the end of its output
	}
	_ = p.command.Wait() // it was killed
}
