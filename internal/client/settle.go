package client

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
)

// Updates of names go to the partition of the directory alone as long as nothing is known to speak against it. If
// something of them is elsewhere, or is just being changed by a command of several partitions, the answer is EREMOTE and
// nothing was changed. Then the client looks, and sends what it has found along with the command to all
// partitions concerned, which execute it if they find the same.

// settle runs an update until the partitions concerned take it. arrange says where it goes, by what is known or, if
// look is set, by looking anew; and completes cmd by what was found.
func (c *Client) settle(ctx context.Context, cmd *meta.Command, arrange func(ctx context.Context, look bool) (parties, error)) (meta.Result, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	wait, gone := firstRetry, 0
	for look := false; ; look = true {
		to, err := arrange(ctx, look)
		if err != nil {
			return meta.Result{}, c.outcome(err)
		}
		if to.known != nil {
			return *to.known, nil
		}
		r, err := c.applyIn(ctx, to, cmd)
		switch {
		case err == posix.ESTALE && gone < maxGone: // moved; if it is gone, looking says so
			gone++
		case err == posix.EREMOTE && !look:
			if r.Attr.Ino != 0 {
				c.suggest(r.Attr.Ino, uint16(r.Number))
			}
		case err == posix.EREMOTE: // what was found is not so any more, or is being changed
			if err := pause.Between(ctx, wait/2, wait); err != nil {
				return meta.Result{}, c.outcome(err)
			}
			wait = min(2*wait, maxRetry)
		default:
			if err == nil && len(to.dest) > 0 && r.Attr.Ino != 0 {
				c.learn(r.Attr.Ino, uint16(r.Number))
			}
			return r, c.outcome(err)
		}
	}
}

// named is what a name names, and the partitions of both.
type named struct {
	dir   *partition
	child posix.Attr // zero: nothing
	at    *partition // of child
}

// away reports whether there is something, in another partition than its name.
func (n *named) away() bool { return n.child.Ino != 0 && n.at != n.dir }

// look finds out what a name names: ENOENT if nothing.
func (c *Client) look(ctx context.Context, at Name) (named, error) {
	for try := 1; ; try++ {
		a, err := c.askAt(ctx, &meta.Command{Op: meta.OpLookup, Ino: at.Dir, Name: at.Name})
		if err != nil {
			if err == posix.ENOENT {
				c.foreign.drop(at)
			}
			return named{dir: a.partition}, err
		}
		child := a.Attr
		if child.Nlink > 0 {
			c.learn(child.Ino, a.partition.id)
			c.foreign.drop(at)
			return named{a.partition, child, a.partition}, nil
		}
		c.suggest(child.Ino, uint16(a.Number))
		c.foreign.put(at, child.Ino)
		there, err := c.askAt(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: child.Ino})
		if err == nil {
			return named{a.partition, there.Attr, there.partition}, nil
		}
		if !errors.Is(err, posix.ESTALE) || try == maxRereads {
			return named{}, err
		}
		// It has lost this name meanwhile, and all others: look again.
	}
}

// remembered is look without asking: by what look found before.
func (c *Client) remembered(at Name) (n named, err error) {
	if n.dir, err = c.at(at.Dir); err != nil {
		return n, err
	}
	if child, ok := c.foreign.get(at); ok {
		n.child.Ino = child
		n.at, err = c.at(child)
	}
	return n, err
}

// find finds out where inodes are.
func (c *Client) find(ctx context.Context, inodes ...posix.Ino) error {
	for _, i := range inodes {
		if _, err := c.ask(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: i}); err != nil {
			return err
		}
	}
	return nil
}

// lookBoth looks at two names, of which the second may name nothing.
func (c *Client) lookBoth(ctx context.Context, from, to Name) (source, target named, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		source, err = c.look(ctx, from)
		return err
	})
	g.Go(func() (err error) {
		if target, err = c.look(ctx, to); err == posix.ENOENT {
			err = nil
		}
		return err
	})
	return source, target, g.Wait()
}

// placing is all that a directory has to say of what is made in it.
type placing struct {
	rule meta.Rule
	dir  posix.Attr
}

// askRule gives the placement rule of a directory, which says nothing if it has none.
func (c *Client) askRule(ctx context.Context, dir posix.Ino) (meta.Rule, error) {
	p, err := c.askPlacing(ctx, dir)
	return p.rule, err
}

// askPlacing asks what a directory has to say of what is made in it, and remembers it if it has a rule.
func (c *Client) askPlacing(ctx context.Context, dir posix.Ino) (placing, error) {
	r, err := c.ask(ctx, &meta.Command{Op: meta.OpRule, Ino: dir})
	if err != nil {
		return placing{}, err
	}
	rule, err := meta.DecodeRule(r.Data)
	if err != nil {
		return placing{}, err
	}
	c.rules.drop(dir)
	if !rule.IsZero() {
		c.rules.put(dir, placing{rule, r.Attr})
	}
	return placing{rule, r.Attr}, nil
}
