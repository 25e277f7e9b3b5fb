package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// patience is the time limit of a child for an answer, and for its end.
const patience = 20 * time.Second

// child is a running replica as the parent sees it. Its methods must not be called concurrently.
type child struct {
	spec    spec
	command *exec.Cmd
	in      io.WriteCloser
	encoder *json.Encoder
	answers chan json.RawMessage // closed when the child's output ends
	last    state                // its latest answer
}

// spawn starts this program again as a replica. When the parent ends in any way, the input of the child ends,
// and so does the child.
func spawn(cfg *Config, s spec) (*child, error) {
	c := &child{spec: s, command: exec.Command(cfg.Program[0], cfg.Program[1:]...), answers: make(chan json.RawMessage)}
	c.command.Stderr = os.Stderr
	c.command.SysProcAttr = endWithParent()
	c.command.Env = append(os.Environ(), cfg.Environment...)
	out, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("start replica %d: %w", s.Self, err)
	}
	go func() {
		defer close(c.answers)
		for decoder := json.NewDecoder(out); ; {
			var line json.RawMessage
			if decoder.Decode(&line) != nil {
				return // it has ended; wait tells the reason
			}
			c.answers <- line
		}
	}()
	c.encoder = json.NewEncoder(c.in)
	return c, nil
}

// write sends a line; an error is that of the child, which has ended.
func (c *child) write(line any) error {
	if err := c.encoder.Encode(line); err != nil {
		return fmt.Errorf("replica %d: %w", c.spec.Self, err)
	}
	return nil
}

// read takes a line.
func (c *child) read(ctx context.Context, into any) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case line, ok := <-c.answers:
		if !ok {
			return fmt.Errorf("replica %d ended", c.spec.Self)
		}
		return json.Unmarshal(line, into)
	case <-timer.C:
		return fmt.Errorf("replica %d does not answer", c.spec.Self)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask gives an order and takes the state.
func (c *child) ask(ctx context.Context, o order) error {
	if err := c.write(o); err != nil {
		return err
	}
	c.last = state{}
	return c.read(ctx, &c.last)
}

// kill ends the child as a crash does.
func (c *child) kill() {
	_ = c.command.Process.Kill() // fails only if it has ended
	_ = c.reap()                 // the end of a killed process is no error
}

// stop ends the child in order, or else as a crash does.
func (c *child) stop() error {
	_ = c.in.Close() // fails only if it has ended
	timer := time.AfterFunc(patience, func() { _ = c.command.Process.Kill() })
	defer timer.Stop()
	if err := c.reap(); err != nil {
		return fmt.Errorf("replica %d: %w", c.spec.Self, err)
	}
	return nil
}

// reap waits for the end of the child, and so of its pipes.
func (c *child) reap() error {
	for range c.answers { // answers that nobody reads any more
	}
	return c.command.Wait()
}

// cluster has the processes of a measurement: a child for each member of the groups.
type cluster struct {
	cfg       *Config
	groups    []multicast.Group
	dir       string
	children  map[multicast.ProcessID]*child
	addresses map[multicast.ProcessID]string
}

// start brings up a process for each member of groups.
func start(ctx context.Context, cfg *Config, groups []multicast.Group) (_ *cluster, err error) {
	k := &cluster{cfg: cfg, groups: groups, children: map[multicast.ProcessID]*child{}, addresses: map[multicast.ProcessID]string{}}
	if k.dir, err = os.MkdirTemp(cfg.Dir, "globalfs-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	for p := range k.all() {
		if err := k.listen(ctx, p, 1, "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	for p := range k.all() {
		if err := k.children[p].write(k.addresses); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// listen starts one child and waits until the child knows its address.
func (k *cluster) listen(ctx context.Context, p multicast.ProcessID, incarnation uint64, address string) error {
	dir := fmt.Sprintf("%s/%d", k.dir, p)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	c, err := spawn(k.cfg, spec{
		Self: p, Groups: k.groups, Incarnation: incarnation, Address: address, Dir: dir, Durability: k.cfg.Durability,
		Window: k.cfg.Window, PackDelay: k.cfg.PackDelay,
	})
	if err != nil {
		return err
	}
	k.children[p] = c
	var h hello
	if err := errors.Join(c.write(c.spec), c.read(ctx, &h)); err != nil {
		return err
	}
	k.addresses[p] = h.Address
	return nil
}

// restart brings a killed child back, with its directory and address.
func (k *cluster) restart(ctx context.Context, p multicast.ProcessID) error {
	if err := k.listen(ctx, p, k.children[p].spec.Incarnation+1, k.addresses[p]); err != nil {
		return err
	}
	return k.children[p].write(k.addresses)
}

// all gives the processes in the order of the groups.
func (k *cluster) all() func(yield func(multicast.ProcessID) bool) {
	return func(yield func(multicast.ProcessID) bool) {
		for _, g := range k.groups {
			for _, p := range g.Members {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// each gives an order to all children but one; 0: to all.
func (k *cluster) each(ctx context.Context, o order, but multicast.ProcessID) error {
	for p := range k.all() {
		if p == but {
			continue
		}
		if err := k.children[p].ask(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// close ends all children and removes their files.
func (k *cluster) close() error {
	var errs []error
	for p := range k.all() {
		if c := k.children[p]; c != nil {
			_ = c.in.Close() // they end in parallel
		}
	}
	for p := range k.all() {
		if c := k.children[p]; c != nil {
			errs = append(errs, c.stop())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(k.dir))...)
}
