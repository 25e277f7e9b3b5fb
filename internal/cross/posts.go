package cross

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A post is a command for another partition that needs no vote, such as to make the inode of a name that was
// made here (package meta). The posts to one partition are numbered, and stay in the outbox, which is part of
// the state, until that partition has confirmed them. The receiver orders them, and skips those that it has
// executed. A post carries the sender's vector, so that its effect comes after all that the sender has seen.
//
// The entry that makes a post is not durable: an update with a post is as fast as one without. The post
// leaves after the next durable entry. If there is none, the partition orders an EntrySeal (D3).

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

// posting sends, orders and executes posts. Its state is soft.
type posting struct {
	partition uint16
	machine   *meta.Machine
	orders    *order.Orders
	table     *table
	vector    *vector
	gate      *gate
	reach     *reach
	timer     *timer

	to       map[uint16]*channel
	from     map[uint16]*channel
	receipts []receipt // posts executed since the last step
}

func channelOf(channels map[uint16]*channel, partition uint16) *channel {
	x := channels[partition]
	if x == nil {
		x = &channel{}
		channels[partition] = x
	}
	return x
}

// step confirms the posts that were executed since the last step. It sends the own posts that are not
// confirmed: new ones at once, all of them again after a while. A post leaves only when it is sealed.
func (p *posting) step(leads bool) {
	p.confirm(leads)
	for _, to := range p.machine.Destinations() {
		x := channelOf(p.to, to)
		out := p.machine.Outbox(to, maxPosts)
		if len(out) == 0 {
			continue
		}
		if x.lowest != out[0].Number { // the posts before it are confirmed since
			x.lowest, x.repeatAt = out[0].Number, p.timer.time()+repeatAfter
			if !leads {
				x.repeatAt = p.timer.patience()
			}
		}
		due := p.timer.time() >= x.repeatAt
		if due {
			x.repeatAt = p.timer.again()
		}
		if leads || due {
			p.offer(to, x, out, due)
		}
		p.timer.wakeBy(x.repeatAt)
	}
}

// offer sends the sealed ones of posts: all of them, or those that were not sent.
func (p *posting) offer(to uint16, x *channel, out []meta.Post, all bool) {
	for n := len(out); n > 0 && out[n-1].Number > x.sealed; n-- {
		p.gate.want()
		out = out[:n-1]
	}
	for !all && len(out) > 0 && out[0].Number <= x.upTo {
		out = out[1:]
	}
	if len(out) > 0 && (!all || p.reach.pingSilent([]uint16{to})) {
		x.upTo = p.send(to, out)
	}
}

// send sends posts, as many as a message holds. It returns the number of the last one.
func (p *posting) send(to uint16, out []meta.Post) (last uint64) {
	message := posts{from: p.partition, first: out[0].Number, vector: p.gate.sealed()}
	size := 0
	for i := range out {
		b := out[i].Command.Append(nil)
		if size += len(b); size > maxSent && i > 0 {
			p.timer.hurry()
			break
		}
		message.commands, last = append(message.commands, b), out[i].Number
	}
	sendAll(p.orders, p.orders.Members(to), message.encode([]byte{byte(messagePosts)}))
	return last
}

// confirm reports to other partitions that their posts are executed. A partition that misses a report repeats
// its posts.
func (p *posting) confirm(leads bool) {
	for _, x := range p.receipts {
		if leads {
			sendAll(p.orders, p.orders.Members(x.from), p.receiptFor(x.upTo))
		}
	}
	p.receipts = p.receipts[:0]
}

// receiptFor returns the message that this partition has executed posts up to a number.
func (p *posting) receiptFor(upTo uint64) []byte {
	return appendReceipt([]byte{byte(messageReceipt)}, receipt{p.partition, upTo})
}

// seal releases the posts of all entries executed so far: the last of these is durable.
func (p *posting) seal() {
	for _, to := range p.machine.Destinations() {
		channelOf(p.to, to).sealed = p.machine.LastPost(to)
	}
}

// receive takes posts of another partition: the leader orders them. Another replica does so if the leader
// does not.
func (p *posting) receive(from multicast.ProcessID, q *posts) {
	if q.from == p.partition || len(p.orders.Members(q.from)) == 0 {
		return
	}
	executed := p.machine.PostsExecuted(q.from)
	last := q.first + uint64(len(q.commands)) - 1
	if len(q.commands) == 0 || last <= executed {
		p.orders.Send(from, p.receiptFor(executed))
		return
	}
	x := channelOf(p.from, q.from)
	if x.lowest != executed+1 {
		x.lowest, x.repeatAt = executed+1, p.timer.patience()
	}
	known := executed
	if p.orders.Pending(x.proposed) {
		known = max(known, x.upTo)
	}
	if q.first > known+1 || last <= known || !p.orders.Leads() && p.timer.time() < x.repeatAt {
		return
	}
	q.commands, q.first = q.commands[known+1-q.first:], known+1
	x.proposed, x.upTo = p.gate.propose(EntryPosts, q.encode(nil)), last
}

// execute executes EntryPosts.
func (p *posting) execute(q *posts) error {
	commands := make([]meta.Command, len(q.commands))
	for i, b := range q.commands {
		var err error
		if commands[i], err = meta.DecodeCommand(b); err != nil {
			return fmt.Errorf("post %d of partition %d: %w", q.first+uint64(i), q.from, err)
		}
	}
	p.vector.Observe(q.vector)
	executed := p.machine.ExecutePosts(q.from, q.first, commands, p.vector.time(), p.vector.Count())
	p.receipts = append(p.receipts, receipt{q.from, executed})
	p.table.touch()
	return nil
}

// receiveReceipt takes the report that posts are executed, and has them removed from the outbox.
func (p *posting) receiveReceipt(x receipt) {
	if x.from == p.partition {
		return
	}
	out := p.machine.Outbox(x.from, 1)
	channel := channelOf(p.to, x.from)
	if len(out) == 0 || x.upTo < out[0].Number || p.orders.Pending(channel.proposed) || !p.orders.Leads() {
		return
	}
	channel.proposed = p.gate.propose(EntryPosted, appendReceipt(nil, x))
}
