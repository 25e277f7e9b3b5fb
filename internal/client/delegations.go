package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/client/journal"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
)

// Constants of the logs.
const (
	// batchAgain is the pause after a batch without an answer.
	batchAgain = 200 * time.Millisecond
	// unsentAge is the maximum age of the oldest unacknowledged operation. If it is older, the servers do not
	// answer, and the log does not answer further changes.
	unsentAge = 5 * time.Second
	// provenAge is the maximum time since the last answered renewal of the session. After it, a change waits
	// for another renewal, because replicas end a session after a minute without renewal.
	provenAge = 45 * time.Second
	// recallLinger is the time for which a replica waits for recalls before it answers that there are none.
	recallLinger = 5 * time.Second
	// delegateLater is the pause after servers have refused to grant directories to this client.
	delegateLater = time.Minute
	maxNamed      = 8 // maximum number of lost operations that a log line names
)

// router sends the commands of the client, or answers them from the logs of held directories.
type router struct {
	*route.Router
	delegations *delegations   // nil: the client holds no directories
	waiting     *waitingBlocks // nil: no block ever waits
}

// delegations are the logs of the directories that the client holds (package delegate).
type delegations struct {
	router *route.Router
	cfg    *Config
	notice func(kind, text string, args ...any)
	losses *losses

	gate   gate
	wishes *wishes
	asking chan struct{} // holds a token while a request for an existing directory is under way

	waiting *waitingBlocks
	held    atomic.Int64  // number of logs
	freed   atomic.Uint64 // number of events in which the client has begun or ceased to own inodes
	counts  struct{ logged, recalls, lost, restored atomic.Uint64 }

	mu      sync.Mutex
	journal *journal.Journal  // its content is GUARDED_BY mu; nil: operations that are not ordered die with this process
	logs    map[uint16]*logOf // GUARDED_BY mu; by partition
	last    map[uint64]uint64 // GUARDED_BY mu; the number of the last log, by session
	later   time.Time         // GUARDED_BY mu; no directory is requested before this time
	// freeing has the last return of the directories of a lost log, by partition.
	freeing map[uint16]*freeing // GUARDED_BY mu
}

// Holding counts the directories that a client holds exclusively, and the changes in its logs.
type Holding struct {
	Directories int    `json:"directories"` // held now
	Unordered   int    `json:"unordered"`   // changes that were answered and are not ordered yet
	Logged      uint64 `json:"logged"`      // changes that were answered before their order
	Recalls     uint64 `json:"recalls"`     // directories that servers have recalled
	Lost        uint64 `json:"lost"`        // changes that were answered and could not be ordered
	Restored    uint64 `json:"restored"`    // changes that an earlier process had answered, and this process has sent
	LogBytes    int    `json:"log_bytes"`   // bytes of the changes that are not ordered yet
	BlockBytes  int    `json:"block_bytes"` // bytes of their content that is not stored yet
	KeptBytes   int    `json:"kept_bytes"`  // bytes in use in the journal, including changes that are ordered already
	Waiting     int    `json:"waiting"`     // operations that wait until changes are ordered
	Losses      []Loss `json:"losses"`      // the last losses
}

// Holding returns the counts of the client.
func (c *Client) Holding() (h Holding) {
	d := c.router.delegations
	if d == nil {
		return h
	}
	h.Logged, h.Recalls, h.Lost = d.counts.logged.Load(), d.counts.recalls.Load(), d.counts.lost.Load()
	h.Restored, h.Losses = d.counts.restored.Load(), d.losses.last()
	h.BlockBytes = d.waiting.size()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.logs {
		h.Directories += l.log.Holds()
		h.Unordered += l.log.Len()
		h.LogBytes += l.log.Bytes()
		h.Waiting += l.waiters
	}
	h.KeptBytes = d.journal.Bytes()
	return h
}

// logOf is the log of one partition with its goroutines.
type logOf struct {
	id     uint16
	log    *delegate.Log // GUARDED_BY delegations.mu
	store  *kv.Store     // GUARDED_BY delegations.mu; the copy
	offset posix.Time    // the clock of the servers: offset + the time since began
	began  time.Time
	oldest time.Time // GUARDED_BY delegations.mu; since when the oldest pending operation is the oldest

	moved   chan struct{} // GUARDED_BY delegations.mu; closed when operations are acknowledged or lost
	work    chan struct{} // has room for one token: there is something to send
	waiters int           // GUARDED_BY delegations.mu; callers that wait for the log
	wanted  uint64        // GUARDED_BY delegations.mu; the newest operation for which a caller waits, or has waited
	onDisk  uint64        // GUARDED_BY delegations.mu; the newest operation that a caller wants on disk, or has wanted
	hurry   chan struct{} // has room for one token: the next batch may be due earlier
	pace    pace          // GUARDED_BY delegations.mu
	asking  int           // GUARDED_BY delegations.mu; number of requests for directories without a known outcome
	ended   bool          // GUARDED_BY delegations.mu
	// refilling means that a request for inode numbers is under way (refillEarly).
	refilling bool   // GUARDED_BY delegations.mu
	released  uint64 // GUARDED_BY delegations.mu; delegate.Log.Released, as it was noted last
	journaled
}

func newDelegations(cfg *Config, r *route.Router, l *losses, notice func(kind, text string, args ...any)) *delegations {
	if !cfg.Delegate || cfg.Linearizable {
		return nil
	}
	d := &delegations{
		router: r, cfg: cfg, notice: notice, losses: l, gate: newGate(), wishes: newWishes(), asking: make(chan struct{}, 1),
		journal: cfg.Journal.Journal, logs: map[uint16]*logOf{}, last: map[uint64]uint64{}, freeing: map[uint16]*freeing{},
	}
	d.waiting = newWaitingBlocks(d)
	return d
}

// isIdle reports whether the client holds nothing, and has no log.
func (d *delegations) isIdle() bool { return d == nil || d.held.Load() == 0 }

// of returns the log of the partition where an inode was made; nil: there is none, or its session is over.
// The caller holds mu.
func (d *delegations) of(ino posix.Ino) *logOf {
	l := d.logs[ino.Partition()]
	if l != nil && d.router.SessionOf(l.id) != l.log.Session() {
		d.drop(l, "the session expired")
		return nil
	}
	return l
}

// covers reports whether the client holds an inode.
func (d *delegations) covers(ino posix.Ino) bool {
	if d.isIdle() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.of(ino)
	return l != nil && l.log.Covers(ino)
}

// owns reports whether the client holds an inode, or has unacknowledged changes of the inode. The state of
// such an inode at the replicas may be old.
func (d *delegations) owns(ino posix.Ino) bool {
	if d.isIdle() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.of(ino)
	return l != nil && (l.log.Covers(ino) || l.log.Newest(ino) != 0)
}

// unordered returns the number of changes that are not acknowledged.
func (d *delegations) unordered() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.logs {
		n += l.log.Len()
	}
	return n
}

// changes returns a number that grows with each change in the logs.
func (d *delegations) changes() (n uint64) {
	if d.isIdle() {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.logs {
		n += l.log.Changes()
	}
	return n
}
