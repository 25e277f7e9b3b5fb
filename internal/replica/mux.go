package replica

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A replica has two cores. They share the links of its process, one frame a peer and step, and its
// write-ahead log; a frame has a section for each, and one for what the replicas themselves say to each
// other, and a record says whose it is.

// Core is what a replica needs of a multicast protocol.
type Core interface {
	multicast.Transferable
	// Checkpoint gives a record that stands for all that were handed over before.
	Checkpoint() []byte
	// Leads reports whether this process leads its group: who leads does what any replica could do.
	Leads() bool
	// Members gives the members of a group, as far as this process knows.
	Members(g multicast.GroupID) []multicast.ProcessID
}

// whose says to which part of the replica a section or a record belongs.
type whose byte

const (
	ofLocal   whose = 1 + iota // the order of the partition
	ofCross                    // the order between partitions
	ofBoth                     // of records: a checkpoint of both cores
	ofReplica                  // of sections: messages (votes.go)
)

// cores are the two, with the buffers of a step.
type cores struct {
	local, cross Core
	localIn      multicast.Input
	crossIn      multicast.Input
	localOut     multicast.Output
	crossOut     multicast.Output
	frames       map[multicast.ProcessID][]byte // of this step
	order        []multicast.ProcessID          // of frames
	badFrames    uint64                         // dropped
	left         bool                           // this process has retired in one order at least
}

// split gives each core its part of the frames; hear gets the third part. Malformed frames are dropped.
func (c *cores) split(in *multicast.Input, hear func(from multicast.ProcessID, section []byte)) {
	c.localIn.Reset()
	c.crossIn.Reset()
	c.localIn.Now, c.crossIn.Now = in.Now, in.Now
	for _, f := range in.Frames {
		if len(f.Data) == 0 {
			c.localIn.Frames, c.crossIn.Frames = append(c.localIn.Frames, f), append(c.crossIn.Frames, f)
			continue
		}
		r := varint.NewReader(f.Data)
		for r.Len() > 0 && r.Err() == nil {
			kind, section := whose(r.Uint8()), r.Bytes()
			switch {
			case r.Err() != nil || len(section) == 0:
				r.Fail()
			case kind == ofLocal:
				c.localIn.Frames = append(c.localIn.Frames, multicast.Frame{Peer: f.Peer, Data: section})
			case kind == ofCross:
				c.crossIn.Frames = append(c.crossIn.Frames, multicast.Frame{Peer: f.Peer, Data: section})
			case kind == ofReplica:
				hear(f.Peer, section)
			default:
				r.Fail()
			}
		}
		if r.Err() != nil {
			c.badFrames++
		}
	}
}

// step lets both cores take their step and joins what comes out. Deliveries of the order between partitions, and
// only these, have several destinations.
func (c *cores) step(out *multicast.Output) {
	c.localOut.Reset()
	c.crossOut.Reset()
	c.local.Step(&c.localIn, &c.localOut)
	c.cross.Step(&c.crossIn, &c.crossOut)
	c.records(out)
	for _, f := range c.localOut.Frames {
		c.add(f.Peer, ofLocal, f.Data)
	}
	for _, f := range c.crossOut.Frames {
		c.add(f.Peer, ofCross, f.Data)
	}
	c.flush(out)
	out.Deliveries = append(append(out.Deliveries, c.localOut.Deliveries...), c.crossOut.Deliveries...)
	out.Safe = c.localOut.Safe
	out.Behind = c.localOut.Behind
	if len(out.Behind) == 0 {
		out.Behind = c.crossOut.Behind
	}
	c.left = c.localOut.Retired || c.crossOut.Retired
	out.Retired = c.localOut.Retired && c.crossOut.Retired // in the other order its say may still be needed
	out.Wake = earliest(c.localOut.Wake, c.crossOut.Wake)
}

// records marks the records of both. A checkpoint of one is made one of both, in one record: the log is cut before it.
func (c *cores) records(out *multicast.Output) {
	if c.localOut.Checkpoint || c.crossOut.Checkpoint {
		local := c.local.Checkpoint()
		b := varint.AppendBytes([]byte{byte(ofBoth)}, local)
		out.Records, out.Checkpoint = append(out.Records, append(b, c.cross.Checkpoint()...)), true
		return
	}
	for _, r := range c.localOut.Records {
		out.Records = append(out.Records, mark(ofLocal, r))
	}
	for _, r := range c.crossOut.Records {
		out.Records = append(out.Records, mark(ofCross, r))
	}
}

func mark(w whose, record []byte) []byte {
	return append(append(make([]byte, 0, len(record)+1), byte(w)), record...)
}

// add puts a section into the frame for a peer.
func (c *cores) add(to multicast.ProcessID, w whose, section []byte) {
	b := c.frames[to]
	if b == nil {
		c.order = append(c.order, to)
		b = make([]byte, 0, len(section)+8)
	}
	c.frames[to] = varint.AppendBytes(append(b, byte(w)), section)
}

// flush hands the frames over.
func (c *cores) flush(out *multicast.Output) {
	for _, to := range c.order {
		out.Frames = append(out.Frames, multicast.Frame{Peer: to, Data: c.frames[to]})
	}
	c.order = c.order[:0]
	clear(c.frames)
}

// Replay feeds a record of the write-ahead log that a replica shares to the cores it belongs to, before New.
func Replay(local, cross Core, record []byte) error {
	r := varint.NewReader(record)
	switch whose(r.Uint8()) {
	case ofLocal:
		return local.Replay(r.Rest())
	case ofCross:
		return cross.Replay(r.Rest())
	case ofBoth:
		first := r.Bytes()
		if r.Err() != nil {
			break
		}
		if err := local.Replay(first); err != nil {
			return err
		}
		return cross.Replay(r.Rest())
	}
	return fmt.Errorf("record of %d bytes: none of a replica's", len(record))
}
