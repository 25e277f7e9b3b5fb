package sim

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
)

// Clients that hold directories (packages delegation and client/delegate). Each makes directories in the root
// of partition 1, and works there by its log. All clients change and read the directories of the others, too:
// updates of single names by a name of their own, so that the outcome of each operation is known in advance,
// whatever the order. The judge is tree_holders_test.go.

// Situations of delegations.
const (
	workedInLog     treeMark = "an operation was answered from a log"
	batchAgain      treeMark = "a batch was sent again"
	severalBatches  treeMark = "several batches were under way"
	batchEarly      treeMark = "a batch came before an earlier one"
	heardRecall     treeMark = "a client heard of a recall"
	foreignWaited   treeMark = "an update of another client was executed after a return"
	foreignPrefix   treeMark = "another client read a state before the end of the log"
	holderCrashed   treeMark = "a client lost a log with operations that were not acknowledged"
	holderRevived   treeMark = "a client died, and the next one sent operations of its log"
	holderExpired   treeMark = "the session of a client with a log ended"
	revokedGrant    treeMark = "a log stopped because a directory was revoked"
	crossedIntoHeld treeMark = "a command of several partitions took a file out of a held directory"
	waitedForBlock  treeMark = "operations waited until the block of an earlier one was stored"
	revivedBlock    treeMark = "a client died with a block that was not stored"
	blockFailed     treeMark = "the block of a write in a log could not be stored"
)

// TestTreeDelegations: replicas and clients crash, links are cut.
func TestTreeDelegations(t *testing.T) {
	reach := treeReach{}
	seeds(t, 60, func(seed uint64) error {
		h := newTreeHolders()
		h.crashes = seed%3 == 0
		r := treeRun(seed, treeSetup{holders: h})
		return h.judge(r, reach)
	})
	reach.require(t, workedInLog, batchAgain, severalBatches, batchEarly, heardRecall, foreignWaited, foreignPrefix, holderCrashed, holderRevived, crossedIntoHeld,
		waitedForBlock, revivedBlock, blockFailed)
}

// TestTreeDelegationsExpire: sessions end, and clients are silent until their directories are revoked.
func TestTreeDelegationsExpire(t *testing.T) {
	reach := treeReach{}
	seeds(t, 40, func(seed uint64) error {
		h := newTreeHolders()
		h.silent = true
		setup := treeSetup{holders: h}
		if seed%2 == 0 {
			setup.lease = 3 * time.Second
		}
		r := treeRun(seed, setup)
		return h.judge(r, reach)
	})
	reach.require(t, holderExpired, revokedGrant, foreignWaited)
}

const (
	heldPartition = uint16(1)
	holderWork    = 60 // operations of each client
)

// holder is the log of one client, in virtual time.
type holder struct {
	all     *treeHolders
	c       *treeClient
	log     *delegate.Log // nil: none
	history *logHistory
	number  uint64
	deaf    bool   // it does not hear recalls, and sends nothing
	heard   uint64 // number of the log when it was deaf last
	made    int
	acked   []delegation.Op // of the log, acknowledged last
	unheard bool            // it has asked for a directory without waiting for the answer
	waiting []func() bool   // callers that wait for the log: true: it is over
	blocks  map[uint64]bool // operations of the log whose block is not stored: true: it can be
}

func (h *holder) session() uint64 { return h.c.session[heldPartition] }

// live is the life of a client.
func (t *treeHolders) live(c *treeClient) {
	h := &holder{all: t, c: c}
	t.holders = append(t.holders, h)
	h.begin()
	h.watch(ask.Watching{Recalls: true})
	c.ready = true
	for i := range holderWork {
		h.operate()
		if i%5 == c.id || c.renewsNow() {
			h.renew()
		}
		c.pause(c.run.net.between(0, 30*time.Millisecond))
	}
	h.deaf = false
	h.drain()
	if h.log != nil {
		h.giveBack(h.log.Dirs())
		h.drain()
	}
	h.forget()
	c.worked = true
	for !t.isOver(c.run) {
		h.renew()
		c.pause(200 * time.Millisecond)
	}
	h.verify()
	c.settle()
}

// begin begins a log.
func (h *holder) begin() {
	h.number++
	log, err := delegate.New(delegate.Config{Partition: heldPartition, Session: h.session(), Number: h.number, Keys: kv.NewMemory()})
	if err != nil {
		h.c.stop("log: %v", err)
	}
	h.log, h.history, h.acked, h.blocks = log, h.all.newHistory(), nil, map[uint64]bool{}
}

// revive continues the log as the next process of a client that has died does, with the operations that the
// journal has: those that are not acknowledged and, if it has died before it noted the last acknowledgement,
// those of this one. A batch may be under way.
func (h *holder) revive() {
	ops, first := h.log.Pending(), h.log.Acknowledged()+1
	if h.c.pick(2) == 0 {
		ops, first = append(slices.Clone(h.acked), ops...), first-uint64(len(h.acked))
		h.history.acknowledged -= len(h.acked)
	}
	if len(ops) > 0 {
		h.c.run.reach[holderRevived]++
	}
	if slices.ContainsFunc(ops, func(o delegation.Op) bool { return h.all.isAdopted(o.Command.Ino) }) {
		h.c.run.reach[revivedAdopted]++
	}
	cfg := delegate.Config{Partition: heldPartition, Session: h.session(), Number: h.number, Keys: kv.NewMemory()}
	log, err := delegate.Restore(cfg, first, ops)
	if err != nil {
		h.c.stop("log: %v", err)
	}
	h.log, h.acked = log, nil
	for _, number := range slices.Sorted(maps.Keys(h.blocks)) {
		h.c.run.reach[revivedBlock]++
		h.withhold(number, h.blocks[number])
	}
	h.drain()
	if h.log == log {
		h.begin()
		h.free()
		h.wake()
	}
}

// lose drops the log with the operations that are not acknowledged, and begins another one.
func (h *holder) lose() {
	h.history.lost = true
	h.begin()
	h.free()
	h.wake()
}

// free begins the log at the partition: that frees the directories of the one before.
func (h *holder) free() {
	x := delegate.Beginning(h.number)
	h.send(meta.Command{Op: meta.OpBatch, Data: x.Append(nil)}, nil, func(meta.Result, bool) {})
}
