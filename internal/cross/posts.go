package cross

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A post is an effect in another partition that needs no vote, such as the inode of a name that was made here
// (package meta). Posts go from log to log: the posts to one partition are numbered, and stay in the outbox
// until that partition has confirmed them. The receiver orders them, and skips those that it has executed. A
// post carries the sender's vector, so that the effect comes after all that the sender had seen. The entry
// that makes a post is not durable, so that an update which leaves one is as fast as any: the post waits for
// the next durable entry, if need be for an EntrySeal.

// maxPosts bounds the posts of one message.
const maxPosts = 64

// channel is the soft state of the posts to a partition, or from it.
type channel struct {
	lowest   uint64              // number of the lowest post that is not confirmed, or not executed
	upTo     uint64              // number of the last post sent, or proposed
	sealed   uint64              // number of the last post that may be sent
	repeatAt time.Duration       // when all unconfirmed posts are sent again, or another replica than the leader orders them
	proposed multicast.MessageID // the newest entry
}

// posting is the soft state of all posts.
type posting struct {
	to   map[uint16]*channel
	from map[uint16]*channel
}

func channelOf(channels map[uint16]*channel, partition uint16) *channel {
	x := channels[partition]
	if x == nil {
		x = &channel{}
		channels[partition] = x
	}
	return x
}

// pursuePosts sends posts that are not confirmed: new ones at once, all of them again after a while. A post
// leaves only when it is sealed.
func (c *Commands) pursuePosts(leads bool) {
	for _, to := range c.machine.Destinations() {
		x := channelOf(c.posting.to, to)
		out := c.machine.Outbox(to, maxPosts)
		if len(out) == 0 {
			continue
		}
		if x.lowest != out[0].Number { // the posts before it are confirmed since
			x.lowest, x.repeatAt = out[0].Number, c.now.Mono+repeatAfter
			if !leads {
				x.repeatAt = c.patience()
			}
		}
		due := c.now.Mono >= x.repeatAt
		if due {
			x.repeatAt = c.now.Mono + repeatAfter + 4*stagger*time.Duration(c.cfg.Index)
		}
		if leads || due {
			c.offerPosts(to, x, out, due)
		}
		c.wakeBy(x.repeatAt)
	}
}

// offerPosts sends the sealed ones of posts: all of them, or those that were not sent.
func (c *Commands) offerPosts(to uint16, x *channel, out []meta.Post, all bool) {
	for n := len(out); n > 0 && out[n-1].Number > x.sealed; n-- {
		c.sealed.wanted = true
		out = out[:n-1]
	}
	for !all && len(out) > 0 && out[0].Number <= x.upTo {
		out = out[1:]
	}
	if len(out) > 0 && (!all || c.inReachOrAsk([]uint16{to})) {
		x.upTo = c.sendPosts(to, out)
	}
}

// sendPosts sends posts, as many as a message holds. It returns the number of the last one.
func (c *Commands) sendPosts(to uint16, out []meta.Post) (last uint64) {
	p := posts{from: c.cfg.Partition, first: out[0].Number, vector: c.sealed.vector}
	size := 0
	for i := range out {
		b := out[i].Command.Append(nil)
		if size += len(b); size > maxSent && i > 0 {
			c.hurry()
			break
		}
		p.commands, last = append(p.commands, b), out[i].Number
	}
	c.sendAll(c.orders.Members(to), p.encode([]byte{byte(messagePosts)}))
	return last
}

// receivePosts takes posts of another partition: the leader orders them. Another replica does so if the
// leader does not.
func (c *Commands) receivePosts(from multicast.ProcessID, p *posts) {
	executed := c.machine.PostsExecuted(p.from)
	last := p.first + uint64(len(p.commands)) - 1
	if len(p.commands) == 0 || last <= executed {
		c.orders.Send(from, appendReceipt([]byte{byte(messageReceipt)}, receipt{c.cfg.Partition, executed}))
		return
	}
	x := channelOf(c.posting.from, p.from)
	if x.lowest != executed+1 {
		x.lowest, x.repeatAt = executed+1, c.patience()
	}
	known := executed
	if c.orders.Pending(x.proposed) {
		known = max(known, x.upTo)
	}
	if p.first > known+1 || last <= known || !c.orders.Leads() && c.now.Mono < x.repeatAt {
		return
	}
	p.commands, p.first = p.commands[known+1-p.first:], known+1
	x.proposed, x.upTo = c.proposeEntry(EntryPosts, p.encode(nil)), last
}

// executePosts executes EntryPosts.
func (c *Commands) executePosts(p *posts) error {
	commands := make([]meta.Command, len(p.commands))
	for i, b := range p.commands {
		var err error
		if commands[i], err = meta.DecodeCommand(b); err != nil {
			return fmt.Errorf("post %d of partition %d: %w", p.first+uint64(i), p.from, err)
		}
	}
	c.Observe(p.vector)
	executed := c.machine.ExecutePosts(p.from, p.first, commands, c.time, c.Count())
	c.receipts = append(c.receipts, receipt{p.from, executed})
	c.touch()
	return nil
}

// receiveReceipt takes the report that posts are executed, and has them removed from the outbox.
func (c *Commands) receiveReceipt(x receipt) {
	out := c.machine.Outbox(x.from, 1)
	channel := channelOf(c.posting.to, x.from)
	if len(out) == 0 || x.upTo < out[0].Number || c.orders.Pending(channel.proposed) || !c.orders.Leads() {
		return
	}
	channel.proposed = c.proposeEntry(EntryPosted, appendReceipt(nil, x))
}
