package virtual

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

// Client has one operation under way at most, like a process that makes system calls.
type Client struct {
	*Cluster
	Region  topology.Region
	Session uint64
	seq     map[uint16]uint64 // of the last update, by partition
	vector  ask.Vector
}

// Answer is the end of an operation.
type Answer struct {
	meta.Result
	Unknown bool          // no reply came
	Took    time.Duration // from the request to the reply
}

// NewClient returns a client in a region.
func (k *Cluster) NewClient(region topology.Region) *Client {
	k.session++
	return &Client{Cluster: k, Region: region, Session: k.session, seq: map[uint16]uint64{}}
}

// Open opens the client's session at a partition, and lets time pass until it is open.
func (c *Client) Open(partition uint16) error {
	opened := false
	c.Begin(partition, func() { opened = true })
	c.Run(c.Now+2*grace, func() bool { return opened })
	return c.Err
}

// Begin opens the client's session at a partition. A failure is an error of the network.
func (c *Client) Begin(partition uint16, then func()) {
	c.ask(partition, c.anyReplica(partition), ask.Request{Kind: ask.OpenSession, Session: c.Session}, grace, func(p *ask.Reply) {
		if p == nil || p.Status != ask.Answered {
			c.Err = fmt.Errorf("session at partition %d: no answer in %s", partition, c.Region)
			return
		}
		then()
	})
}

// anyReplica draws a replica of a partition; of the global one it takes the replica in the client's region.
func (c *Client) anyReplica(partition uint16) multicast.ProcessID {
	all := c.Groups[partition].Members
	if partition == Global {
		return all[slices.Index(c.Regions, c.Region)]
	}
	return all[c.Random.IntN(len(all))]
}

// Update requests a command from the first of its parties; all parties execute it.
func (c *Client) Update(patience time.Duration, command meta.Command, parties []uint16, then func(Answer)) {
	asked := parties[0]
	c.seq[asked]++
	command.Cred = owner
	q := ask.Request{
		Kind: ask.Update, Session: c.Session, Seq: c.seq[asked], Done: c.seq[asked] - 1, Patience: patience, Command: command.Append(nil),
	}
	if len(parties) > 1 {
		q.Dest = slices.Sorted(slices.Values(parties))
	}
	c.repeat(asked, q, c.Now, then)
}

// Query requests a read command from a partition.
func (c *Client) Query(partition uint16, command meta.Command, then func(Answer)) {
	command.Cred = owner
	c.repeat(partition, ask.Request{Kind: ask.Query, Command: command.Append(nil)}, c.Now, then)
}

// repeat sends a request to one replica at a time until a replica answers or the patience is over.
func (c *Client) repeat(partition uint16, q ask.Request, since time.Duration, then func(Answer)) {
	left := since + max(q.Patience, grace) + grace - c.Now
	sent := q
	if q.Patience > 0 {
		sent.Patience = max(since+q.Patience-c.Now, time.Millisecond)
	}
	c.ask(partition, c.anyReplica(partition), sent, left, func(p *ask.Reply) {
		a := Answer{Took: c.Now - since, Unknown: true}
		switch {
		case p == nil:
		case p.Status == ask.Overloaded && q.Patience > 0 && c.Now-since < q.Patience:
			c.Schedule(c.Now+again, func() { c.repeat(partition, q, since, then) })
			return
		case p.Status == ask.Overloaded:
			a.Unknown, a.Code = false, posix.EAGAIN
		case p.Status != ask.Answered:
			c.Err = fmt.Errorf("client in %s, partition %d: status %d %s", c.Region, partition, p.Status, p.Result)
		default:
			r, err := meta.DecodeResult(p.Result)
			if err != nil {
				c.Err = err
			}
			a.Unknown, a.Result = false, r
		}
		then(a)
	})
}

// ask sends a request with the client's vector, and merges the replica's vector into it.
func (c *Client) ask(partition uint16, to multicast.ProcessID, q ask.Request, patience time.Duration, then func(*ask.Reply)) {
	q.Vector = c.vector.Clone()
	c.call(c.Region, to, q.Append(nil), patience, func(data []byte) {
		if data == nil {
			then(nil)
			return
		}
		p, err := ask.DecodeReply(data)
		if err != nil {
			c.Err = fmt.Errorf("reply of partition %d: %w", partition, err)
			return
		}
		c.vector = c.vector.Merge(p.Vector)
		then(&p)
	})
}

// Wait executes an update and lets time pass until its answer. An answer other than want is an error.
func (c *Client) Wait(want posix.Code, command meta.Command, parties ...uint16) (Answer, error) {
	var got *Answer
	c.Update(time.Minute, command, parties, func(a Answer) { got = &a })
	c.Run(c.Now+2*time.Minute, func() bool { return got != nil })
	switch {
	case c.Err != nil:
		return Answer{}, c.Err
	case got == nil || got.Unknown || got.Code != want:
		return Answer{}, fmt.Errorf("operation %d of partitions %v, asked in %s: %+v, want %v", command.Op, parties, c.Region, got, want)
	}
	return *got, nil
}

// File makes a file in the root directory of a partition.
func (c *Client) File(partition uint16, name string) (posix.Ino, error) {
	a, err := c.Wait(posix.OK, Mknod(partition, name), partition)
	return a.Attr.Ino, err
}

// Mknod makes a file in the root directory of a partition.
func Mknod(partition uint16, name string) meta.Command {
	return meta.Command{Op: meta.OpMknod, Ino: Root(partition), Name: name, Mode: posix.TypeRegular | 0o644, Flags: meta.Exclusive}
}

// Unlink removes a name from the root directory of a partition.
func Unlink(partition uint16, name string) meta.Command {
	return meta.Command{Op: meta.OpUnlink, Ino: Root(partition), Name: name}
}

// Rename moves a file with its name from one partition to another.
func Rename(file posix.Ino, name string, from, to uint16) meta.Command {
	return meta.Command{
		Op: meta.OpRename, Ino: Root(from), Name: name, NewParent: Root(to), NewName: name, Child: file, Target: to,
	}
}

// LinkIn adds a name in another partition to a file of one partition.
func LinkIn(file posix.Ino, partition uint16, name string) meta.Command {
	return meta.Command{Op: meta.OpLink, Ino: file, Child: file, NewParent: Root(partition), NewName: name}
}

// Touch sets the time of a file.
func Touch(file posix.Ino) meta.Command {
	return meta.Command{Op: meta.OpSetAttr, Ino: file, Set: meta.SetMtimeNow}
}
