package meta_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// tree is some partitions, and a substitute for the order of the commands between them.
type tree struct {
	t        *testing.T
	keys     []*kv.Store
	machines []*meta.Machine
	number   uint64
	counter  uint64
}

func newTree(t *testing.T, partitions int) *tree {
	f := &tree{t: t, keys: make([]*kv.Store, partitions), machines: make([]*meta.Machine, partitions)}
	for p := range f.machines {
		f.keys[p] = kv.NewMemory()
		f.restart(p)
	}
	t.Cleanup(f.check)
	return f
}

func root(p int) posix.Ino { return posix.MakeIno(uint16(p), 1) }

// restart makes the machine of a partition anew over its keys.
func (f *tree) restart(p int) {
	f.t.Helper()
	cfg := meta.Config{Partition: uint16(p)}
	for other := 1; p == 0 && other < len(f.machines); other++ {
		cfg.Genesis = append(cfg.Genesis, meta.Birth{Name: string(rune('0' + other)), Ino: root(other)})
	}
	var err error
	f.machines[p], err = meta.New(f.keys[p], cfg)
	require.NoError(f.t, err)
}

func (f *tree) check() {
	if f.t.Failed() {
		return
	}
	f.mail()
	var all []meta.Keys
	for p, keys := range f.keys {
		require.Empty(f.t, meta.Check(keys), "partition %d", p)
		all = append(all, keys)
	}
	require.Empty(f.t, meta.CheckAll(all))
}

func (f *tree) decoded(c meta.Command) *meta.Command {
	f.t.Helper()
	f.counter++
	c.Time = posix.Time(f.counter)
	for _, k := range c.Blocks {
		c.Length += uint64(k.Length)
	}
	if c.Op == meta.OpWrite {
		c.Length += uint64(len(c.Data))
	}
	d, err := meta.DecodeCommand(c.Append(nil))
	require.NoError(f.t, err)
	d.Session, d.Authority = 1, c.Authority
	return &d
}

// at executes c in one partition.
func (f *tree) at(p int, c meta.Command) meta.Result {
	f.t.Helper()
	d := f.decoded(c)
	if c.Op.IsQuery() {
		return f.machines[p].Query(d)
	}
	return f.machines[p].Apply(d, f.counter)
}

func (f *tree) must(p int, c meta.Command) posix.Attr {
	f.t.Helper()
	r := f.at(p, c)
	require.Equal(f.t, posix.OK, r.Code)
	return r.Attr
}

func (f *tree) make(p int, dir posix.Ino, name string, mode posix.Mode) posix.Ino {
	f.t.Helper()
	return f.must(p, meta.Command{Op: meta.OpMknod, Ino: dir, Name: name, Mode: mode, Flags: meta.Exclusive}).Ino
}

// undecided is a command that some parties have prepared.
type undecided struct {
	f       *tree
	number  uint64
	command *meta.Command
	parties []uint16
	votes   [][]byte
}

func (f *tree) begin(c meta.Command, parties ...uint16) *undecided {
	f.t.Helper()
	f.number++
	return &undecided{f: f, number: f.number, command: f.decoded(c), parties: parties}
}

func (u *undecided) prepare(parties ...uint16) *undecided {
	for _, p := range parties {
		u.votes = append(u.votes, u.f.machines[p].Prepare(u.number, u.command, u.parties).Encoded)
	}
	return u
}

// decide passes the votes to all parties, in another order to each, and returns the answer of the first
// party.
func (u *undecided) decide() meta.Result {
	u.f.t.Helper()
	var answer meta.Result
	for i, p := range u.parties {
		u.f.counter++
		r := u.f.machines[p].Decide(u.number, u.votes, u.f.counter)
		if i == 0 {
			answer = r
		}
		require.Equal(u.f.t, answer.Code, r.Code, "partition %d", p)
		u.votes = append(u.votes[1:], u.votes[0])
	}
	return answer
}

// cross executes c at all parties.
func (f *tree) cross(c meta.Command, parties ...uint16) meta.Result {
	f.t.Helper()
	return f.begin(c, parties...).prepare(parties...).decide()
}

func (f *tree) mustCross(c meta.Command, parties ...uint16) posix.Attr {
	f.t.Helper()
	r := f.cross(c, parties...)
	require.Equal(f.t, posix.OK, r.Code)
	return r.Attr
}

// mail delivers all posts, each of them twice.
func (f *tree) mail() {
	f.t.Helper()
	for moved := true; moved; {
		moved = false
		for p := range f.machines {
			for _, to := range f.machines[p].Destinations() {
				moved = f.mailTo(p, to) || moved
			}
		}
	}
}

// mailTo delivers the posts of p to one partition.
func (f *tree) mailTo(p int, to uint16) bool {
	f.t.Helper()
	posts := f.posts(p, to)
	if int(to) >= len(f.machines) || len(posts) == 0 {
		return false
	}
	first, last := posts[0].Number, posts[len(posts)-1].Number
	commands := make([]meta.Command, len(posts))
	for i := range posts {
		commands[i] = posts[i].Command
	}
	f.counter++
	require.Less(f.t, f.machines[to].ExecutePosts(uint16(p), first+1, commands[1:], 5, f.counter), first, "with a gap")
	for range 2 {
		require.Equal(f.t, last, f.machines[to].ExecutePosts(uint16(p), first, commands, posix.Time(f.counter), f.counter))
	}
	f.machines[p].Posted(to, last)
	return true
}

// posts gives the posts of p to another partition.
func (f *tree) posts(p int, to uint16) []meta.Post { return f.machines[p].Outbox(to, 9) }

// postsOf returns all posts of p that are not about numbers.
func (f *tree) postsOf(p int) (all []meta.Post) {
	for _, to := range f.machines[p].Destinations() {
		all = append(all, f.posts(p, to)...)
	}
	return slices.DeleteFunc(all, func(x meta.Post) bool { return x.Command.Op == meta.OpNumbers || x.Command.Op == meta.OpGranted })
}

// spread gives dir in partition p a rule that sends all children to target.
func (f *tree) spread(p int, dir posix.Ino, target uint16) {
	f.t.Helper()
	c := meta.Command{Op: meta.OpPlace, Ino: dir, Data: (&meta.Rule{Spread: []uint16{target}}).Append(nil), Target: target}
	if p == 0 {
		f.must(0, c)
		return
	}
	f.mustCross(c, uint16(p), 0)
}

// away makes name in dir of partition p, with its inode in another partition.
func (f *tree) away(p int, dir posix.Ino, name string, mode posix.Mode, target uint16) posix.Ino {
	f.t.Helper()
	f.spread(p, dir, target)
	f.mail()
	ino := f.make(p, dir, name, mode)
	require.Equal(f.t, target, ino.Partition())
	f.mail()
	return ino
}

func (f *tree) stat(p int, ino posix.Ino) posix.Attr {
	f.t.Helper()
	return f.must(p, meta.Command{Op: meta.OpGetAttr, Ino: ino})
}

func (f *tree) lookup(p int, dir posix.Ino, name string) meta.Result {
	f.t.Helper()
	return f.at(p, meta.Command{Op: meta.OpLookup, Ino: dir, Name: name})
}

func remote(ino posix.Ino, at uint64) meta.Result {
	return meta.Result{Code: posix.EREMOTE, Attr: posix.Attr{Ino: ino}, Number: at}
}

// held is the answer to an update that meets a hold.
var held = meta.Result{Code: posix.EHELD}

// executed returns the number of the last post of another partition that p has executed.
func (f *tree) executed(p, from int) uint64 {
	return f.machines[p].ExecutePosts(uint16(from), 1, nil, 0, 0)
}
