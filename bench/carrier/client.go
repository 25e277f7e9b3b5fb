package carrier

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

const (
	// grace is the time for which a client waits for an answer beyond its patience.
	grace = 5 * time.Second
	// again is the pause before a client repeats a request that no replica has executed.
	again = 100 * time.Millisecond
)

// client has one operation under way at most, like a process that makes system calls.
type client struct {
	*cluster
	region  topology.Region
	session uint64
	seq     map[uint16]uint64 // of the last update, by partition
	vector  ask.Vector
}

// answer is the end of an operation.
type answer struct {
	meta.Result
	unknown bool          // no reply came
	took    time.Duration // from the request to the reply
}

// newClient returns a client in a region.
func (k *cluster) newClient(region topology.Region) *client {
	k.session++
	return &client{cluster: k, region: region, session: k.session, seq: map[uint16]uint64{}}
}

// open opens the client's session at a partition.
func (c *client) open(partition uint16) error {
	err := fmt.Errorf("session at partition %d: no answer in %s", partition, c.region)
	opened := false
	c.ask(partition, c.anyReplica(partition), ask.Request{Kind: ask.OpenSession, Session: c.session}, grace, func(p *ask.Reply) {
		opened = true
		if p != nil && p.Status == ask.Answered {
			err = nil
		}
	})
	c.run(c.now+2*grace, func() bool { return opened })
	return err
}

// anyReplica draws a replica of a partition; of the global one it takes the replica in the client's region.
func (c *client) anyReplica(partition uint16) multicast.ProcessID {
	all := c.groups[partition].Members
	if partition == global {
		return all[slices.Index(c.regions, c.region)]
	}
	return all[c.rng.IntN(len(all))]
}

// update requests a command from the first of its parties; all parties execute it.
func (c *client) update(patience time.Duration, command meta.Command, parties []uint16, then func(answer)) {
	asked := parties[0]
	c.seq[asked]++
	command.Cred = owner
	q := ask.Request{
		Kind: ask.Update, Session: c.session, Seq: c.seq[asked], Done: c.seq[asked] - 1, Patience: patience, Command: command.Append(nil),
	}
	if len(parties) > 1 {
		q.Dest = slices.Sorted(slices.Values(parties))
	}
	c.repeat(asked, q, c.now, then)
}

// query requests a read command from a partition.
func (c *client) query(partition uint16, command meta.Command, then func(answer)) {
	command.Cred = owner
	c.repeat(partition, ask.Request{Kind: ask.Query, Command: command.Append(nil)}, c.now, then)
}

// repeat sends a request to one replica at a time until a replica answers or the patience is over.
func (c *client) repeat(partition uint16, q ask.Request, since time.Duration, then func(answer)) {
	left := since + max(q.Patience, grace) + grace - c.now
	sent := q
	if q.Patience > 0 {
		sent.Patience = max(since+q.Patience-c.now, time.Millisecond)
	}
	c.ask(partition, c.anyReplica(partition), sent, left, func(p *ask.Reply) {
		a := answer{took: c.now - since, unknown: true}
		switch {
		case p == nil:
		case p.Status == ask.Overloaded && q.Patience > 0 && c.now-since < q.Patience:
			c.schedule(c.now+again, func() { c.repeat(partition, q, since, then) })
			return
		case p.Status == ask.Overloaded:
			a.unknown, a.Code = false, posix.EAGAIN
		case p.Status != ask.Answered:
			c.err = fmt.Errorf("client in %s, partition %d: status %d %s", c.region, partition, p.Status, p.Result)
		default:
			r, err := meta.DecodeResult(p.Result)
			if err != nil {
				c.err = err
			}
			a.unknown, a.Result = false, r
		}
		then(a)
	})
}

// ask sends a request with the client's vector, and merges the replica's vector into it.
func (c *client) ask(partition uint16, to multicast.ProcessID, q ask.Request, patience time.Duration, then func(*ask.Reply)) {
	q.Vector = c.vector.Clone()
	c.call(c.region, to, q.Append(nil), patience, func(data []byte) {
		if data == nil {
			then(nil)
			return
		}
		p, err := ask.DecodeReply(data)
		if err != nil {
			c.err = fmt.Errorf("reply of partition %d: %w", partition, err)
			return
		}
		c.vector = c.vector.Merge(p.Vector)
		then(&p)
	})
}

// wait executes an update and lets time pass until its answer. An answer other than want is an error.
func (c *client) wait(want posix.Code, command meta.Command, parties ...uint16) (answer, error) {
	var got *answer
	c.update(time.Minute, command, parties, func(a answer) { got = &a })
	c.run(c.now+2*time.Minute, func() bool { return got != nil })
	switch {
	case c.err != nil:
		return answer{}, c.err
	case got == nil || got.unknown || got.Code != want:
		return answer{}, fmt.Errorf("operation %d of partitions %v, asked in %s: %+v, want %v", command.Op, parties, c.region, got, want)
	}
	return *got, nil
}

// file makes a file in the root directory of a partition.
func (c *client) file(partition uint16, name string) (posix.Ino, error) {
	a, err := c.wait(posix.OK, mknod(partition, name), partition)
	return a.Attr.Ino, err
}

func mknod(partition uint16, name string) meta.Command {
	return meta.Command{Op: meta.OpMknod, Ino: root(partition), Name: name, Mode: posix.TypeRegular | 0o644, Flags: meta.Exclusive}
}

func unlink(partition uint16, name string) meta.Command {
	return meta.Command{Op: meta.OpUnlink, Ino: root(partition), Name: name}
}

// rename moves a file with its name from one partition to another.
func rename(file posix.Ino, name string, from, to uint16) meta.Command {
	return meta.Command{
		Op: meta.OpRename, Ino: root(from), Name: name, NewParent: root(to), NewName: name, Child: file, Target: to,
	}
}

// linkIn adds a name in another partition to a file of one partition.
func linkIn(file posix.Ino, partition uint16, name string) meta.Command {
	return meta.Command{Op: meta.OpLink, Ino: file, Child: file, NewParent: root(partition), NewName: name}
}

// touch sets the time of a file.
func touch(file posix.Ino) meta.Command {
	return meta.Command{Op: meta.OpSetAttr, Ino: file, Set: meta.SetMtimeNow}
}
