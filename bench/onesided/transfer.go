package onesided

import (
	"context"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// transfers measures Figure 8: a replica stands still while the others write rows of its warehouse and
// execute transactions of two warehouses. Then it wakes up, finds that it lags, and takes over the rows.
func (c *HeronConfig) transfers(ctx context.Context, r *HeronReport) error {
	for _, size := range []int{0, 64 << 10, 640 << 10} {
		c.progress("state transfer: %d bytes", size)
		took, err := c.transfer(ctx, size/rowSize)
		if err != nil {
			return err
		}
		r.Transfers = append(r.Transfers, HeronTransfer{Bytes: size, Took: microseconds(took)})
	}
	return nil
}

func (c *HeronConfig) transfer(ctx context.Context, count int) (time.Duration, error) {
	t, err := c.newTrial(load{warehouses: 2, members: members, one: true, kind: int(payment), span: 2})
	if err != nil {
		return 0, err
	}
	m := t.model
	if err := m.run(ctx, c.Warmup); err != nil {
		return 0, err
	}
	lagger := m.processes[members-1]
	lagger.stopped = true
	writer := m.processes[0]
	if count > 0 {
		writer.seq++
		x := transaction{kind: touch, home: writer.group, away: writer.group, amount: count}
		writer.in.Proposed = append(writer.in.Proposed, multicast.Message{
			ID: multicast.MessageID{Sender: writer.id, Seq: writer.seq}, Dest: []multicast.GroupID{writer.group}, Payload: x.encode(),
		})
		writer.wake()
	}
	if err := m.run(ctx, m.net.Now()+2*time.Millisecond); err != nil {
		return 0, err
	}
	lagger.stopped = false
	lagger.wake()
	for range 5000 { // short steps: a replica may lag again after the first transfer
		if err := m.run(ctx, m.net.Now()+2*time.Microsecond); err != nil {
			return 0, err
		}
		if s := lagger.executor.core.Stats(); s.Transfers > 0 {
			return s.Transfers, nil
		}
	}
	return 0, fmt.Errorf("a replica that stood still has taken over no state: it has lagged %d times", lagger.executor.core.Stats().Lagged)
}
