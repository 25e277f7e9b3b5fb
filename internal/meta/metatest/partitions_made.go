package metatest

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// number gives a number for a new inode in a partition, which that reserves some at a time.
func (c *cluster) number(p *partition) (posix.Ino, error) {
	if len(p.reserved) == 0 {
		const count = 7
		r, err := p.apply(&meta.Command{Op: meta.OpReserve, Length: count})
		if err != nil {
			return 0, err
		}
		for i := range count {
			p.reserved = append(p.reserved, posix.Ino(r.Number)+posix.Ino(i))
		}
	}
	ino := p.reserved[0]
	p.reserved = p.reserved[1:]
	return ino, nil
}

// withoutVotes makes x, a mknod of two partitions, one that each of them executes alone.
func (c *cluster) withoutVotes(x *pending) (err error) {
	dir := c.query(meta.Command{Op: meta.OpGetAttr, Ino: x.command.Ino}).Attr
	x.command.Child, err = c.number(c.partitions[x.command.Target])
	x.command.Foresee(&dir)
	return err
}

// executeAlone does the part of p in a command that needs no votes.
func (c *cluster) executeAlone(p *partition, x *pending) error {
	x.votes = append(x.votes, nil)
	if p.cfg.Partition == x.command.Target {
		return c.bring(p, x, "", (*meta.Machine).Make)
	}
	var r meta.Result
	err := c.bring(p, x, "", func(m *meta.Machine, d *meta.Command, message []byte) { r = m.Enter(d, message) })
	if err != nil {
		return err
	}
	// Who knows of the inode waits until it is there.
	target := c.partitions[x.command.Target]
	for len(x.votes) < len(x.parties) {
		if err := c.prepare(target); err != nil {
			return err
		}
	}
	if c.chance(4) { // the same message comes again, and nobody remembers the first
		for _, again := range []error{c.bring(p, x, "again", (*meta.Machine).Disown), c.bring(target, x, "again", (*meta.Machine).Make)} {
			if again != nil {
				return again
			}
		}
	}
	c.forget(x)
	c.disturb()
	x.disturbed = false
	switch r.Code {
	case posix.ESTALE:
		r.Code = posix.EREMOTE // the directory has moved, or is gone: the client looks
	case posix.OK:
		c.voteless++
	}
	return c.outcome(x, r)
}

// bring executes a part of x at the replicas of p, as it comes out of the codec.
func (c *cluster) bring(p *partition, x *pending, suffix string, do func(m *meta.Machine, d *meta.Command, message []byte)) error {
	encoded, message := x.command.Append(nil), fmt.Append(nil, x.number, suffix)
	if c.chance(6) {
		if err := p.restart(c.pick(replicaCount)); err != nil {
			return err
		}
	}
	_, err := each(p, func(m *meta.Machine) error {
		d, err := meta.DecodeCommand(encoded)
		if err == nil {
			do(m, &d, message)
		}
		return err
	})
	return err
}
