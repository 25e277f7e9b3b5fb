package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
)

// Constants of the logs.
const (
	// batchDelay is the time for which operations are collected before a batch is sent, unless a caller
	// waits.
	batchDelay = 5 * time.Millisecond
	// batchAgain is the pause after a batch without an answer.
	batchAgain = 200 * time.Millisecond
	// unsentAge is the age of the oldest operation that is not acknowledged, from which on changes are not
	// answered from the log: the servers do not answer.
	unsentAge = 5 * time.Second
	// provenAge is the time since the last answered renewal of the session, from which on a change waits for
	// another renewal: the replicas end a session after a minute.
	provenAge = 45 * time.Second
	// recallLinger is the time for which a replica waits with the answer that nothing is recalled.
	recallLinger = 5 * time.Second
	// delegateLater is the pause after the refusal of a delegation.
	delegateLater = time.Minute
	maxNamed      = 8 // lost operations in the log of the process
)

// router sends the commands of the client, or answers them from the logs of held directories.
type router struct {
	*route.Router
	delegations *delegations // nil: the client holds no directories
}

// delegations are the logs of the directories that the client holds (package delegate).
type delegations struct {
	router *route.Router
	cfg    *Config
	notice func(kind, text string, args ...any)

	held   atomic.Int64  // logs
	losses atomic.Uint64 // events in which operations were lost
	freed  atomic.Uint64 // events in which the client has ceased to own inodes
	counts struct{ logged, recalls, lost atomic.Uint64 }

	mu    sync.Mutex
	logs  map[uint16]*logOf // GUARDED_BY mu; by partition
	last  map[uint64]uint64 // GUARDED_BY mu; the number of the last log, by session
	later time.Time         // GUARDED_BY mu; no directory is asked for before
}

// Holding counts the directories that a client holds exclusively, and the changes in its logs.
type Holding struct {
	Directories int    `json:"directories"` // held now
	Unordered   int    `json:"unordered"`   // changes that were answered and are not ordered yet
	Logged      uint64 `json:"logged"`      // changes that were answered before their order
	Recalls     uint64 `json:"recalls"`     // directories that servers have recalled
	Lost        uint64 `json:"lost"`        // changes that were answered and could not be ordered
}

// Holding returns the counts of the client.
func (c *Client) Holding() (h Holding) {
	d := c.router.delegations
	if d == nil {
		return h
	}
	h.Logged, h.Recalls, h.Lost = d.counts.logged.Load(), d.counts.recalls.Load(), d.counts.lost.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.logs {
		h.Directories += l.log.Holds()
		h.Unordered += l.log.Len()
	}
	return h
}

// logOf is the log of one partition with its goroutines.
type logOf struct {
	id      uint16
	log     *delegate.Log // GUARDED_BY delegations.mu
	store   *kv.Store     // GUARDED_BY delegations.mu; the copy
	offset  posix.Time    // the clock of the servers: offset + the time since began
	began   time.Time
	oldest  time.Time     // GUARDED_BY delegations.mu; when the oldest pending operation was appended
	moved   chan struct{} // GUARDED_BY delegations.mu; closed when operations are acknowledged or lost
	work    chan struct{} // has room for one token: there is something to send
	waiters int           // GUARDED_BY delegations.mu; callers that wait for the log
	hurry   chan struct{} // has room for one token: a caller waits
	asking  int           // GUARDED_BY delegations.mu; directories that are being made, or of which the outcome is not known
	ended   bool          // GUARDED_BY delegations.mu
}

func newDelegations(cfg *Config, r *route.Router, notice func(kind, text string, args ...any)) *delegations {
	if !cfg.Delegate || cfg.Linearizable {
		return nil
	}
	return &delegations{router: r, cfg: cfg, notice: notice, logs: map[uint16]*logOf{}, last: map[uint64]uint64{}}
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

// owns reports whether the client holds an inode, or may have changed the inode without an acknowledgement of
// the change: what replicas tell of its state may be old.
func (d *delegations) owns(ino posix.Ino) bool {
	if d.isIdle() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.of(ino)
	return l != nil && (l.log.Covers(ino) || l.log.Knows(ino))
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

// Query is route.Router.Query, or the answer of a log.
func (r *router) Query(ctx context.Context, cmd *meta.Command, to route.Target) (route.Answer, error) {
	d := r.delegations
	if d.isIdle() {
		return r.Router.Query(ctx, cmd, to)
	}
	a, answered, err := d.query(ctx, cmd)
	if answered || err != nil {
		return a, err
	}
	for {
		freed := d.freed.Load()
		a, err := r.Router.Query(ctx, cmd, to)
		if err == nil {
			d.hide(cmd.Op, &a)
		}
		if err != nil || d.freed.Load() == freed {
			return a, err
		}
		// The answer may be older than changes of inodes that the client owned until a moment ago.
	}
}

// hide leaves only the numbers and the types of children that the client owns in the answer of a replica for
// their directory, as for children in another partition: the client asks for their attributes.
func (d *delegations) hide(op meta.Op, a *route.Answer) {
	switch op {
	case meta.OpLookup:
		if a.Attr.Nlink > 0 && d.owns(a.Attr.Ino) {
			a.Attr, a.Number = posix.Attr{Ino: a.Attr.Ino, Mode: a.Attr.Mode.Type()}, uint64(a.Partition)
		}
	case meta.OpReadDir:
		for i := range a.Entries {
			if e := &a.Entries[i]; e.Attr.Nlink > 0 && d.owns(e.Attr.Ino) {
				e.Attr, e.At = posix.Attr{Ino: e.Attr.Ino, Mode: e.Attr.Mode.Type()}, a.Partition
			}
		}
	}
}

// query answers a query of held objects, and waits before a query of objects with changes that are not
// acknowledged.
func (d *delegations) query(ctx context.Context, cmd *meta.Command) (a route.Answer, answered bool, err error) {
	d.mu.Lock()
	l := d.of(cmd.Ino)
	if l == nil {
		d.mu.Unlock()
		return a, false, nil
	}
	result, ok := l.log.Query(cmd)
	wait := !ok && (l.log.Knows(cmd.Ino) || l.log.Covers(cmd.Ino))
	d.mu.Unlock()
	switch {
	case ok:
		return d.answer(l, result), true, result.Code.Err()
	case wait:
		return a, false, d.drain(ctx)
	}
	return a, false, nil
}

func (d *delegations) answer(l *logOf, r meta.Result) route.Answer {
	seen := d.router.Seen(l.id)
	return route.Answer{Result: r, Partition: l.id, Seen: seen, AsOf: seen, Session: l.log.Session(), Held: true}
}

// Update is route.Router.Update, or an operation of a log. An update that is not for a log is sent after all
// operations of logs.
func (r *router) Update(ctx context.Context, cmd *meta.Command, to route.Target) (route.Answer, error) {
	d := r.delegations
	if d == nil {
		return r.Router.Update(ctx, cmd, to)
	}
	switch {
	case d.isIdle():
	case to.Several():
		if err := d.yield(ctx, cmd); err != nil {
			return route.Answer{}, err
		}
	default:
		if a, done, err := d.update(ctx, cmd); done || err != nil {
			return a, err
		}
	}
	if isMkdir(cmd) && !to.Several() {
		if a, done, err := d.mkdir(ctx, cmd); done {
			return a, err
		}
	}
	return r.Router.Update(ctx, cmd, to)
}

// UpdateBuilt is route.Router.UpdateBuilt, or an operation of a log.
func (r *router) UpdateBuilt(ctx context.Context, ino posix.Ino, build route.Build) (route.Answer, error) {
	d := r.delegations
	if d.covers(ino) {
		cmd, session, err := build(ino.Partition())
		if err != nil {
			return route.Answer{Partition: ino.Partition()}, err
		}
		if session == 0 || d.isOf(ino, session) {
			if a, done, err := d.update(ctx, cmd); done || err != nil {
				return a, err
			}
		}
	}
	if !d.isIdle() {
		if err := d.yield(ctx, &meta.Command{Op: meta.OpWrite, Ino: ino}); err != nil {
			return route.Answer{}, err
		}
	}
	return r.Router.UpdateBuilt(ctx, ino, build)
}

func (d *delegations) isOf(ino posix.Ino, session uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.of(ino)
	return l != nil && l.log.Session() == session
}

func isMkdir(cmd *meta.Command) bool {
	return cmd.Op == meta.OpMknod && cmd.Mode.IsDir() && cmd.Name != ""
}

// update executes an update in a log. If the update is not for a log, it waits until all logs are
// acknowledged.
func (d *delegations) update(ctx context.Context, cmd *meta.Command) (a route.Answer, done bool, err error) {
	for {
		if err := d.admit(ctx); err != nil {
			return a, false, err
		}
		d.mu.Lock()
		l := d.of(cmd.Ino)
		if l != nil && d.router.Unproven(l.id) > provenAge {
			d.mu.Unlock()
			if err := d.router.Renew(ctx, l.id); err != nil && !errors.Is(err, posix.ESTALE) {
				return a, false, err
			}
			continue
		}
		others := d.isPendingBeside(l)
		if l == nil || l.log.IsFull() || others {
			d.mu.Unlock()
			if l == nil {
				return a, false, d.yield(ctx, cmd)
			}
			if others { // the changes of this mount are ordered in their order
				if err := d.drain(ctx); err != nil {
					return a, false, err
				}
			}
			continue
		}
		c := *cmd
		c.Time = l.now()
		r, outcome := l.log.Update(&c)
		if outcome == delegate.Logged {
			d.logged(l, cmd)
		}
		last := l.log.Last()
		d.mu.Unlock()
		switch outcome {
		case delegate.Logged:
			if r.Attr.Nlink == 0 && !removes(cmd.Op) { // the inode exists as long as its caller has it open
				err = d.wait(ctx, l, last)
			}
			return d.answer(l, r), true, err
		case delegate.Refused:
			return d.answer(l, r), true, r.Code.Err()
		case delegate.Numbers:
			if err := d.refill(ctx, l); err != nil {
				return a, false, err
			}
		default:
			return a, false, d.yield(ctx, cmd)
		}
	}
}

// isPendingBeside reports whether another log than l has operations that are not acknowledged. The caller
// holds mu.
func (d *delegations) isPendingBeside(l *logOf) bool {
	for _, other := range d.logs {
		if other != l && other.log.Len() > 0 {
			return true
		}
	}
	return false
}

// removes reports whether an operation may answer with an inode that it has removed.
func removes(op meta.Op) bool {
	return op == meta.OpUnlink || op == meta.OpRmdir || op == meta.OpRename
}

// logged keeps the blocks of an operation that was appended, and wakes the sender. The caller holds mu.
func (d *delegations) logged(l *logOf, cmd *meta.Command) {
	d.counts.logged.Add(1)
	for i := range cmd.Blocks {
		d.router.KeepBlock(cmd.Blocks[i].ID)
	}
	if changes := l.log.Changes(); changes%commitEvery == 0 {
		l.log.Reap(d.router.IsHeld, l.now())
		_ = l.store.Commit(false) // in memory
	}
	if l.log.Len() == 1 {
		l.oldest = time.Now()
	}
	signal(l.work)
}

// commitEvery is the number of changes of a copy after which it is tidied.
const commitEvery = 1024

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// now is the time for a change: the estimated clock of the server that has made the first directory.
func (l *logOf) now() posix.Time { return l.offset + posix.Time(route.Elapsed(l.began)) }

// admit waits while the log of any partition is full or too old.
func (d *delegations) admit(ctx context.Context) error {
	for {
		d.mu.Lock()
		var full *logOf
		var wait uint64
		for _, l := range d.logs {
			switch {
			case l.log.Len() > 0 && time.Since(l.oldest) > unsentAge:
				full, wait = l, l.log.Last()
			case l.log.IsFull():
				full, wait = l, l.log.Last()-uint64(l.log.Len())/2
			}
		}
		d.mu.Unlock()
		if full == nil {
			return nil
		}
		if err := d.wait(ctx, full, wait); err != nil {
			return err
		}
	}
}

// wait returns when an operation of a log is acknowledged, or lost.
func (d *delegations) wait(ctx context.Context, l *logOf, number uint64) error {
	ctx, cancel := d.router.Operation(ctx)
	defer cancel()
	d.mu.Lock()
	l.waiters++
	defer func() {
		l.waiters--
		d.mu.Unlock()
	}()
	for !l.ended && l.log.Acknowledged() < number {
		moved := l.moved
		d.mu.Unlock()
		signal(l.hurry)
		var err error
		select {
		case <-moved:
		case <-ctx.Done():
			err = d.router.Outcome(ctx.Err())
		}
		d.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// drain returns when all operations that are in logs now are acknowledged, or lost.
func (d *delegations) drain(ctx context.Context) error {
	if d.isIdle() {
		return nil
	}
	type target struct {
		l    *logOf
		last uint64
	}
	d.mu.Lock()
	var all []target
	for _, l := range d.logs {
		if l.log.Len() > 0 {
			all = append(all, target{l, l.log.Last()})
		}
	}
	d.mu.Unlock()
	for _, t := range all {
		if err := d.wait(ctx, t.l, t.last); err != nil {
			return err
		}
	}
	return nil
}

// yield returns the directories that an update touches which is not for a log, and drains all logs.
func (d *delegations) yield(ctx context.Context, cmd *meta.Command) error {
	d.mu.Lock()
	for _, l := range d.logs {
		if dirs := l.log.Touching(cmd); len(dirs) > 0 && cmd.Op != meta.OpLock { // a lock changes no file
			d.giveBack(l, dirs)
		}
	}
	d.mu.Unlock()
	return d.drain(ctx)
}

// giveBack appends returns to a log. The caller holds mu.
func (d *delegations) giveBack(l *logOf, dirs []posix.Ino) {
	if l.log.Len() == 0 {
		l.oldest = time.Now()
	}
	l.log.Return(dirs)
	signal(l.work)
}

// giveBackAll returns all directories, and drains the logs.
func (d *delegations) giveBackAll(ctx context.Context) error {
	if d.isIdle() {
		return nil
	}
	d.mu.Lock()
	for _, l := range d.logs {
		d.giveBack(l, l.log.Dirs())
	}
	d.mu.Unlock()
	return d.drain(ctx)
}

// mkdir makes a directory that the client then holds. done is false if the caller is to make the directory
// without that.
func (d *delegations) mkdir(ctx context.Context, cmd *meta.Command) (a route.Answer, done bool, err error) {
	at, err := d.router.At(cmd.Ino)
	if err != nil || !d.mayAsk() {
		return a, false, nil
	}
	l, err := d.open(ctx, at)
	if err != nil {
		return a, false, nil
	}
	c := *cmd
	c.Op, c.Offset = meta.OpDelegate, l.log.Number()
	a, err = d.router.Update(ctx, &c, route.Partition(at).Under(l.log.Session()))
	d.asked(l, cmd.Ino, &a, err)
	switch {
	case err == nil:
	case errors.Is(err, posix.EOPNOTSUPP) || a.Refused:
		d.refused()
		return a, false, nil
	case errors.Is(err, posix.EREMOTE) && a.Attr.Ino == 0 && d.router.SessionOf(at) != l.log.Session():
		d.lose(l, "the session expired")
		return a, false, nil
	}
	return a, true, err
}

func (d *delegations) mayAsk() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().After(d.later)
}

// refused notes that the servers do not delegate.
func (d *delegations) refused() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.later = time.Now().Add(delegateLater)
	d.notice("delegate", "servers do not let this mount hold directories: each change waits for its order; the servers are of an older version, or the certificate of this mount bounds its users")
}

// asked records the outcome of an OpDelegate. If the outcome is not known, the log stays: the client may be
// asked to return a directory that it does not know.
func (d *delegations) asked(l *logOf, parent posix.Ino, a *route.Answer, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case errors.Is(err, posix.ETIMEDOUT), errors.Is(err, posix.EIO) && !a.Refused:
		return
	case err == nil && !l.ended && a.Number == uint64(l.id) && a.Number2 != 0:
		if l.offset == 0 || a.Attr.Ctime > l.now() {
			l.offset, l.began = a.Attr.Ctime, time.Now()
		}
		l.log.Granted(a.Attr, parent, posix.Ino(a.Number2))
	}
	l.asking--
	d.endEmpty(l)
}

// endEmpty ends a log with which nothing is held: the next one has an empty copy. The caller holds mu.
func (d *delegations) endEmpty(l *logOf) {
	if !l.ended && l.asking == 0 && l.log.Len() == 0 && l.log.Holds() == 0 {
		d.end(l)
	}
}

// refill asks for numbers.
func (d *delegations) refill(ctx context.Context, l *logOf) error {
	c := meta.Command{Op: meta.OpDelegate, Offset: l.log.Number()}
	a, err := d.router.Update(ctx, &c, route.Partition(l.id).Under(l.log.Session()))
	switch {
	case err == nil && a.Number2 != 0:
		d.mu.Lock()
		defer d.mu.Unlock()
		if !l.ended {
			l.log.AddNumbers(posix.Ino(a.Number2))
		}
	case err == nil, errors.Is(err, posix.EREMOTE):
		d.lose(l, "the session expired")
		return nil
	}
	return err
}

// open returns the log of a partition, and begins one if there is none.
func (d *delegations) open(ctx context.Context, partition uint16) (*logOf, error) {
	session, err := d.router.Session(ctx, partition)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.logs[partition]; l != nil {
		l.asking++
		return l, nil
	}
	number := max(d.last[session]+1, uint64(time.Now().UnixMicro())) // above those of a process that had the session before
	store := kv.NewMemory()
	log, err := delegate.New(delegate.Config{Partition: partition, Session: session, Number: number, Keys: store})
	if err != nil {
		return nil, err
	}
	d.last[session] = number
	l := &logOf{
		id: partition, asking: 1, log: log, store: store, moved: make(chan struct{}), work: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
	}
	d.logs[partition] = l
	d.held.Add(1)
	d.router.Go(func(life context.Context) { d.send(life, l) })
	d.router.Go(func(life context.Context) { d.hear(life, l) })
	return l, nil
}

// lose ends a log without its pending operations (L4).
func (d *delegations) lose(l *logOf, reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !l.ended {
		d.drop(l, reason)
		d.free(l)
	}
}

// suspend ends all logs. Directories were given back before.
func (d *delegations) suspend() {
	if d.isIdle() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.logs {
		d.drop(l, "the client was suspended")
	}
}

// drop ends a log without its pending operations. The caller holds mu.
func (d *delegations) drop(l *logOf, reason string) {
	lost := l.log.Pending()
	d.end(l)
	if len(lost) == 0 {
		return
	}
	d.losses.Add(1)
	d.counts.lost.Add(uint64(len(lost)))
	d.cfg.Logger.Error("changes that programs have made are lost: they were not ordered; the next fsync of each open file, and globalfs sync, report EIO",
		"partition", l.id, "changes", len(lost), "reason", reason, "first", describe(lost))
}

// free begins another log of the session of a lost one at the partition, if the session is open: then the
// partition does not wait for the return of the directories. The caller holds mu.
func (d *delegations) free(l *logOf) {
	session := l.log.Session()
	d.last[session] = max(d.last[session], l.log.Number()) + 1
	x := delegate.Beginning(d.last[session])
	d.router.Go(func(life context.Context) {
		c := meta.Command{Op: meta.OpBatch, Data: x.Append(nil)}
		if _, err := d.router.Update(life, &c, route.Partition(l.id).Under(session)); err != nil {
			d.notice("free", "directories that this mount has held cannot be returned: their partition ends that when another mount needs them", "partition", l.id, "error", err)
		}
	})
}

// end removes a log. The caller holds mu.
func (d *delegations) end(l *logOf) {
	l.ended = true
	d.freed.Add(1)
	delete(d.logs, l.id)
	d.held.Add(-1)
	d.release(l.log.Pending())
	close(l.moved)
	l.moved = make(chan struct{})
	signal(l.work)
}

// release gives up the blocks of operations.
func (d *delegations) release(ops []delegation.Op) {
	for i := range ops {
		for _, b := range ops[i].Command.Blocks {
			d.router.DropBlock(b.ID)
		}
	}
}

// describe names some operations.
func describe(ops []delegation.Op) (names []string) {
	for i := range ops {
		if c := &ops[i].Command; c.Name != "" && len(names) < maxNamed {
			names = append(names, c.Name)
		}
	}
	return names
}

// send sends the batches of a log until it ends.
func (d *delegations) send(life context.Context, l *logOf) {
	for {
		select {
		case <-l.work:
		case <-life.Done():
			return
		}
		d.collect(life, l)
		for d.sendNext(life, l) {
		}
		d.mu.Lock()
		ended := l.ended
		d.mu.Unlock()
		if ended {
			return
		}
	}
}

// collect waits for more operations, unless a caller waits for the log.
func (d *delegations) collect(life context.Context, l *logOf) {
	d.mu.Lock()
	waiting := l.waiters > 0
	d.mu.Unlock()
	if waiting {
		return
	}
	timer := time.NewTimer(batchDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.hurry:
	case <-life.Done():
	}
}

// sendNext sends one batch until it is answered, and reports whether there is another one to send at once.
func (d *delegations) sendNext(life context.Context, l *logOf) bool {
	d.mu.Lock()
	x, ok := l.log.Next()
	ended := l.ended
	d.mu.Unlock()
	if !ok || ended {
		return false
	}
	c := meta.Command{Op: meta.OpBatch, Data: x.Append(nil)}
	a, err := d.router.Update(life, &c, route.Partition(l.id).Under(l.log.Session()))
	var done delegation.Done
	if err == nil {
		done, err = delegation.DecodeDone(a.Data)
	}
	switch {
	case err == nil:
		return d.acknowledge(life, l, &done)
	case errors.Is(err, posix.EREMOTE):
		d.lose(l, "the session expired")
		return false
	case a.Refused:
		d.lose(l, "a server refused the batch")
		return false
	}
	return pause.For(life, batchAgain) == nil
}

// acknowledge applies the answer to a batch.
func (d *delegations) acknowledge(life context.Context, l *logOf, done *delegation.Done) (more bool) {
	d.mu.Lock()
	ops, on := l.log.Acknowledge(done)
	d.release(ops)
	if slices.ContainsFunc(ops, func(o delegation.Op) bool { return o.Return != 0 }) || l.log.Len() == 0 {
		d.freed.Add(1)
	}
	l.oldest = time.Now()
	close(l.moved)
	l.moved = make(chan struct{})
	more = l.log.Len() > 0 && (l.waiters > 0 || l.log.Len() >= delegation.MaxOps)
	if l.log.Len() > 0 {
		signal(l.work)
	}
	needs, large := l.log.NeedsNumbers(), l.log.IsLarge()
	if on && large {
		l.log.Reap(d.router.IsHeld, l.now())
		if l.log.IsLarge() {
			d.giveBack(l, l.log.Dirs())
		}
	}
	if on {
		d.endEmpty(l)
	}
	d.mu.Unlock()
	if !on {
		reason := "the partition has another state than this mount"
		if done.Code != posix.OK {
			reason = done.Code.Error()
		}
		d.lose(l, reason)
		return false
	}
	if needs && !large {
		if err := d.refill(life, l); err != nil && life.Err() == nil {
			d.notice("numbers", "a partition gives no inode numbers to this mount: creates wait for the next try", "partition", l.id, "error", err)
		}
	}
	return more
}

// hear returns directories that are recalled, until the log ends.
func (d *delegations) hear(life context.Context, l *logOf) {
	w := ask.Watching{Linger: recallLinger, Recalls: true}
	for life.Err() == nil {
		d.mu.Lock()
		ended := l.ended
		d.mu.Unlock()
		if ended {
			return
		}
		x, err := d.router.Watch(life, l.id, &w)
		if err != nil {
			_ = pause.For(life, watchAgain) // the loop checks life
			continue
		}
		w.History, w.From, w.Mark = x.History, x.To, x.Mark
		if len(x.Recalled) == 0 {
			continue
		}
		d.counts.recalls.Add(uint64(len(x.Recalled)))
		d.mu.Lock()
		if !l.ended {
			d.giveBack(l, x.Recalled)
		}
		last := l.log.Last()
		d.mu.Unlock()
		_ = d.wait(life, l, last) // the loop checks life
	}
}
