package meta

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Config is the configuration of a Machine. All replicas of a partition must have the same.
type Config struct {
	Partition uint16
	Genesis   []Birth    // the entries of the root directory at birth, in this order
	Time      posix.Time // the time of birth
	Owner     posix.Cred // the owner of the root directory
	// Shards are the partitions of the region at birth, including this one, over which new directories
	// spread. They are used at birth only; a stored partition has its own list (AddShards).
	Shards []uint16
	// Copy means that keys contain only a part of the tree (Adopt): an inode that they lack may still be in
	// the partition.
	Copy bool
}

// Birth is an entry of the root directory of a new cluster that names the root directory of another
// partition.
type Birth struct {
	Name string
	Ino  posix.Ino // the root directory of the other partition
}

// Machine is the metadata of one partition. It is not safe for concurrent use, and no other code may write
// its keys.
type Machine struct {
	cfg   Config
	keys  Keys
	noted *recorder // keys, with a record of the changes
	state state
	saved state // the stored value of state

	undecided register
	posts     map[uint16]int    // number of posts in the outbox, by destination
	reserved  map[uint64]uint64 // bits of reserved numbers, see perReservation
	shards    []uint16          // empty: the region has one partition

	now     posix.Time      // time of the command that is being executed
	chosen  posix.Ino       // number for the inode that the command makes; 0: a fresh one (ApplyNumbered)
	dropped []posix.BlockID // blocks of other homes that the command has dropped, of which the homes must be informed
}

// formatVersion is the version of the format of the keys.
const formatVersion = 4

// FormatVersion is the version of the stored format, for 'globalfs version'.
const FormatVersion = formatVersion

// state has the counters of the partition.
type state struct {
	last   uint64 // counter of the newest inode
	inodes uint64 // number of inodes in use, including orphans
	bytes  uint64 // bytes in the extents of these inodes

	blocks       uint64     // number of blocks in use that were written for this partition, wherever they are held
	blockBytes   uint64     // bytes of these blocks
	dropped      uint64     // number of blocks in the queue
	droppedBytes uint64     // bytes of the blocks in the queue that were written for this partition
	queued       uint64     // place of the newest block in the queue
	droppedAt    posix.Time // time at which that block was dropped
}

// New opens the metadata in keys. If keys are empty, it makes the root directory. It fails if keys belong to
// another partition, or have another format. After the keys were replaced, a new Machine must be made.
func New(keys Keys, cfg Config) (*Machine, error) {
	noted := &recorder{Keys: keys}
	m := &Machine{cfg: cfg, keys: noted, noted: noted, undecided: newRegister(), posts: map[uint16]int{}, reserved: map[uint64]uint64{}}
	b := keys.Get(stateKey)
	if b == nil {
		return m, m.birth()
	}
	partition, s, err := decodeState(b)
	if err != nil {
		return nil, err
	}
	if partition != cfg.Partition {
		return nil, fmt.Errorf("the store holds partition %d, not %d", partition, cfg.Partition)
	}
	m.state, m.saved = s, s
	m.countPosts()
	if m.reserved, err = loadReservations(keys); err != nil {
		return nil, err
	}
	if m.shards, err = StoredShards(keys); err != nil {
		return nil, err
	}
	return m, m.loadUndecided()
}

// birth makes the root directory and the entries of Genesis.
func (m *Machine) birth() error {
	root := inode{
		Attr: posix.Attr{
			Ino: posix.MakeIno(m.cfg.Partition, 1), Mode: posix.TypeDir | 0o755, Nlink: 2,
			UID: m.cfg.Owner.UID, GID: m.cfg.Owner.GID,
			Atime: m.cfg.Time, Mtime: m.cfg.Time, Ctime: m.cfg.Time,
		},
		parent: posix.Root,
		cookie: firstCookie - 1,
	}
	for _, b := range m.cfg.Genesis {
		if checkName(b.Name) != posix.OK || isDots(b.Name) || b.Ino.Partition() == m.cfg.Partition {
			return fmt.Errorf("genesis of partition %d: %q cannot be inode %d", m.cfg.Partition, b.Name, b.Ino)
		}
		if _, found := m.entry(root.Ino, b.Name); found {
			return fmt.Errorf("genesis of partition %d: two entries %q", m.cfg.Partition, b.Name)
		}
		m.addEntry(&root, entry{name: b.Name, ino: b.Ino, kind: posix.TypeDir, at: b.Ino.Partition()})
	}
	m.state = state{last: 1, inodes: 1}
	m.shards = storeShards(m.keys, m.cfg.Shards)
	m.save(&root)
	m.saveState()
	return nil
}

func (m *Machine) saveState() {
	m.postDropped()
	if m.state == m.saved && m.saved.last != 0 {
		return
	}
	b := varint.AppendUint(nil, uint8(formatVersion))
	b = varint.AppendUint(b, m.cfg.Partition)
	b = varint.AppendUint(b, m.state.last)
	b = varint.AppendUint(b, m.state.inodes)
	b = varint.AppendUint(b, m.state.bytes)
	b = appendUsage(b, &BlockUsage{m.state.blocks, m.state.blockBytes, m.state.dropped, m.state.droppedBytes})
	b = varint.AppendUint(b, m.state.queued)
	b = varint.AppendInt(b, int64(m.state.droppedAt))
	m.keys.Set(stateKey, b)
	m.saved = m.state
}

func decodeState(b []byte) (partition uint16, s state, err error) {
	r := varint.NewReader(b)
	if v := r.Uint64(); r.Err() == nil && v != formatVersion {
		return 0, s, fmt.Errorf("stored metadata has format %d, this version reads %d: run the version that wrote it to copy the files elsewhere, and begin anew in another data directory", v, formatVersion)
	}
	partition = r.Uint16()
	s = state{last: r.Uint64(), inodes: r.Uint64(), bytes: r.Uint64()}
	s.blocks, s.blockBytes, s.dropped, s.droppedBytes = r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()
	s.queued, s.droppedAt = r.Uint64(), posix.Time(r.Int())
	if err := r.Done(); err != nil {
		return 0, s, fmt.Errorf("stored metadata: counters: %w", err)
	}
	return partition, s, nil
}

// Apply executes an update, which DecodeCommand must have checked. counter is the number of the update in the
// partition; an inode that loses its last link stores it. An update that fails has changed nothing.
func (m *Machine) Apply(c *Command, counter uint64) Result {
	if code := c.bind(); code != posix.OK {
		return failed(code)
	}
	if m.Blocked(c) {
		return failed(posix.EHELD)
	}
	m.now = c.Time
	r := m.located(c, m.apply(c, counter))
	m.saveState()
	return r
}

func (m *Machine) apply(c *Command, counter uint64) Result {
	switch c.Op {
	case OpMknod:
		return m.mknod(c)
	case OpLink:
		return m.link(c)
	case OpUnlink, OpRmdir:
		return m.remove(c, counter)
	case OpRename:
		return m.rename(c, counter)
	case OpSetAttr:
		return m.setAttr(c)
	case OpWrite:
		return m.write(c)
	case OpFallocate:
		return m.fallocate(c)
	case OpSetXattr:
		return m.setXattr(c)
	case OpRemoveXattr:
		return m.removeXattr(c)
	case OpMove:
		return m.moveHere(c)
	case OpLock:
		return m.lockFile(c)
	case OpPlace:
		return m.place(c)
	case OpTask:
		return m.updateTask(c)
	case OpCollected:
		return m.collected(c)
	}
	return failed(posix.EINVAL)
}

// Query executes a query, which DecodeCommand must have checked.
func (m *Machine) Query(c *Command) Result {
	if code := c.bind(); code != posix.OK {
		return failed(code)
	}
	return m.located(c, m.query(c))
}

func (m *Machine) query(c *Command) Result {
	switch c.Op {
	case OpLookup:
		return m.lookup(c)
	case OpGetAttr:
		return m.getAttr(c)
	case OpReadlink:
		return m.readlink(c)
	case OpReadDir:
		return m.readDir(c)
	case OpGetXattr:
		return m.getXattr(c)
	case OpListXattr:
		return m.listXattr(c)
	case OpExtents:
		return m.extents(c)
	case OpGetLock:
		return m.fileLocked(c)
	case OpChain:
		return m.chain(c)
	case OpStatFS:
		return Result{Number: m.state.inodes, Number2: m.state.bytes}
	case OpRule:
		return m.ruleOf(c)
	case OpRules:
		return m.rules(c)
	case OpTasks:
		return m.tasks(c)
	case OpScan:
		return m.scan(c)
	case OpQueue:
		return m.queue(c)
	case OpGarbage:
		return m.unknown(c)
	}
	return failed(posix.EINVAL)
}

func failed(code posix.Code) Result { return Result{Code: code} }
