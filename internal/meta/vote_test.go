package meta

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
)

// pair is two partitions in which a file is about to move from 1 to 0.
type pair struct {
	keys     [2]*kv.Store
	machines [2]*Machine
	file     posix.Ino
}

var both = []uint16{0, 1}

func newPair(t require.TestingT) *pair {
	p := &pair{}
	for i := range p.machines {
		p.keys[i] = kv.NewMemory()
		var err error
		p.machines[i], err = New(p.keys[i], Config{Partition: uint16(i)})
		require.NoError(t, err)
	}
	root := posix.MakeIno(1, 1)
	p.file = p.machines[1].Apply(&Command{Op: OpMknod, Ino: root, Name: "f", Mode: 0o600}, 1).Attr.Ino
	for i, c := range []Command{
		{Op: OpWrite, Ino: p.file, Blocks: []Block{{posix.MakeBlockID(1, 1, 1), 100}}},
		{Op: OpWrite, Ino: p.file, Data: []byte("literal"), Offset: 200},
		{Op: OpSetXattr, Ino: p.file, Name: "user.x", Data: []byte("v")},
	} {
		c.Session = 1
		require.Equal(t, posix.OK, p.machines[1].Apply(&c, uint64(i+2)).Code)
	}
	return p
}

func (p *pair) rename() *Command {
	return &Command{Op: OpRename, Time: 7, Ino: posix.MakeIno(1, 1), Name: "f", NewParent: posix.Root, NewName: "g", Child: p.file}
}

func (p *pair) votes(number uint64, c *Command) [][]byte {
	return [][]byte{p.machines[0].Prepare(number, c, both).Encoded, p.machines[1].Prepare(number, c, both).Encoded}
}

func TestVotesRoundTrip(t *testing.T) {
	p := newPair(t)
	for _, b := range p.votes(1, p.rename()) {
		v, err := decodeVote(b)
		require.NoError(t, err)
		require.Equal(t, b, v.encode())
		for n := range b {
			_, err := decodeVote(b[:n])
			require.Error(t, err, "the first %d bytes", n)
		}
	}
}

func TestExportRoundTrip(t *testing.T) {
	p := newPair(t)
	n, _ := p.machines[1].inode(p.file)
	b := p.machines[1].export(&n)
	x, err := decodeExport(b)
	require.NoError(t, err)
	require.Equal(t, n, x.inode)
	require.Len(t, x.extents, 2)
	require.Equal(t, []xattr{{"user.x", []byte("v")}}, x.xattrs)
	for end := range b {
		_, err := decodeExport(b[:end])
		require.Error(t, err, "the first %d bytes", end)
	}
}

// The outcome does not depend on the order of the votes.
func TestTheOutcomeIsOfTheVotes(t *testing.T) {
	p := newPair(t)
	c := p.rename()
	votes := p.votes(1, c)
	decoded, ok := decodeVotes(votes, both)
	require.True(t, ok)
	turned, ok := decodeVotes([][]byte{votes[1], votes[0]}, both)
	require.True(t, ok)
	require.Equal(t, combine(c, decoded), combine(c, turned))
}

// Check finds forwardings, undecided commands, posts and peers that do not decode.
func TestCheckReadsWhatIsUnderWay(t *testing.T) {
	p := newPair(t)
	votes := p.votes(1, p.rename())
	for _, m := range p.machines {
		m.Decide(1, votes, 9)
	}
	for i, c := range []*Command{{Op: OpUnlink, Ino: posix.Root, Name: "g"}, {Op: OpMknod, Ino: posix.Root, Name: "d", Mode: posix.TypeDir}} {
		require.Equal(t, posix.OK, p.machines[0].Apply(c, uint64(10+i)).Code)
	}
	for _, m := range p.machines {
		m.Prepare(2, &Command{Op: OpPlace, Ino: posix.Root}, both)
	}
	kinds := map[byte]bool{}
	for _, keys := range p.keys {
		require.Empty(t, Check(keys))
		for _, prefix := range []byte{prefixForwarding, prefixUndecided, prefixPost, prefixPeer} {
			for key, value := range keys.Scan([]byte{prefix}, []byte{prefix + 1}) {
				key, value := bytes.Clone(key), bytes.Clone(value)
				kinds[prefix] = true
				keys.Set(key, []byte{0xff})
				require.NotEmpty(t, Check(keys), "with a bad value of key %x", key)
				keys.Set(key, value)
			}
		}
	}
	require.Len(t, kinds, 4)
	p.keys[1].Delete(forwardingKey(p.file))
	p.machines[1].addEntry(&inode{Attr: posix.Attr{Ino: posix.MakeIno(1, 1)}, cookie: 9}, entry{name: "x", ino: p.file})
	require.NotEmpty(t, Check(p.keys[1]))
}

// Link counts end where 31 bits do, also across partitions.
func TestMaxLinksElsewhere(t *testing.T) {
	p := newPair(t)
	file, _ := p.machines[1].inode(p.file)
	file.Nlink = posix.MaxLinks
	p.machines[1].save(&file)
	root, _ := p.machines[0].inode(posix.Root)
	root.Nlink = posix.MaxLinks
	p.machines[0].save(&root)
	p.machines[1].Apply(&Command{Op: OpMknod, Ino: posix.MakeIno(1, 1), Name: "d", Mode: posix.TypeDir}, 1)
	dir, _ := p.machines[1].entry(posix.MakeIno(1, 1), "d")
	for i, c := range []Command{
		{Op: OpLink, Ino: p.file, NewParent: posix.Root, NewName: "x"},
		{Op: OpRename, Ino: posix.MakeIno(1, 1), Name: "d", NewParent: posix.Root, NewName: "x", Child: dir.ino, Chain: []posix.Ino{posix.Root}},
	} {
		number := uint64(i + 10)
		votes := p.votes(number, &c)
		for _, m := range p.machines {
			require.Equal(t, posix.EMLINK, m.Decide(number, votes, 9).Code, "%+v", c)
		}
	}
}

// A forged vote of another party causes no panic. Votes without the own vote of a party are refused.
func FuzzVotes(f *testing.F) {
	p := newPair(f)
	votes := p.votes(1, p.rename())
	f.Add(votes[0])
	f.Add(votes[1])
	f.Fuzz(func(t *testing.T, forged []byte) {
		for i := range both {
			p := newPair(t)
			votes := p.votes(1, p.rename())
			votes[1-i] = forged
			p.machines[i].Decide(1, votes, 9)
			votes[i] = forged
			require.Equal(t, posix.EREMOTE, p.machines[1-i].Decide(1, [][]byte{forged}, 9).Code)
		}
	})
}

// Votes that decode and cannot be true together lead to nothing.
func TestVotesThatContradict(t *testing.T) {
	for name, forge := range map[string]func(v *vote){
		"another inode":        func(v *vote) { v.source.ino++ },
		"another type":         func(v *vote) { v.source.kind = posix.TypeDir },
		"another file exports": func(v *vote) { v.inodes[1].Size++ },
		"export is cut":        func(v *vote) { v.export = v.export[:len(v.export)-1] },
		"the file is gone":     func(v *vote) { v.inodes = v.inodes[:1] },
		"the directory too":    func(v *vote) { v.inodes = nil },
		"another partition":    func(v *vote) { v.partition = 7 },
		"it refuses":           func(v *vote) { v.code = posix.EIO },
	} {
		p := newPair(t)
		votes := p.votes(1, p.rename())
		v, err := decodeVote(votes[1])
		require.NoError(t, err)
		forge(&v)
		votes[1] = v.encode()
		require.Equal(t, posix.EREMOTE, p.machines[0].Decide(1, votes, 9).Code, name)
		require.Equal(t, posix.EREMOTE, p.machines[1].Decide(1, votes, 9).Code, name)
	}
}

// A hold keeps away exactly the holds that would make a vote untrue.
func TestHoldsMeet(t *testing.T) {
	const ino = posix.Ino(9)
	for _, x := range []struct {
		held, wanted hold
		meets        bool
	}{
		{hold{ino: ino, name: "a"}, hold{ino: ino, name: "a"}, true},
		{hold{ino: ino, name: "a"}, hold{ino: ino, name: "b"}, false},
		{hold{ino: ino, name: "a"}, hold{ino: ino + 1, name: "a"}, false},
		{hold{ino: ino, name: "a"}, hold{ino: ino, exclusive: allFacets}, false}, // beside it the directory is pinned
		{hold{ino: ino, shared: pinned}, hold{ino: ino, shared: pinned}, false},
		{hold{ino: ino, shared: pinned}, hold{ino: ino, exclusive: facetAccess}, true},
		{hold{ino: ino, exclusive: facetAccess}, hold{ino: ino, shared: facetAccess}, true},
		{hold{ino: ino, exclusive: facetLinks}, hold{ino: ino, exclusive: facetLinks}, true},
		{hold{ino: ino, exclusive: facetLinks}, hold{ino: ino, exclusive: facetContent}, false},
		{hold{ino: ino, exclusive: allFacets}, hold{ino: ino, shared: facetPlace}, true},
		{hold{ino: ino, exclusive: allFacets}, hold{ino: ino + 1, exclusive: allFacets}, false},
	} {
		require.Equal(t, x.meets, x.held.meets(&x.wanted), "%+v", x)
		require.Equal(t, x.meets, x.wanted.meets(&x.held), "%+v", x)
		u := &undecided{number: 1, holds: holdSet{x.held}}
		r := newRegister()
		r.add(u)
		require.Equal(t, x.meets, r.held(holdSet{x.wanted}), "%+v", x)
		r.remove(u)
		require.False(t, r.held(holdSet{x.wanted}))
		require.Empty(t, r.about)
	}
}

// Stored commands and exchanges are read back as they were, and other bytes do no harm.
func FuzzStoredExchange(f *testing.F) {
	p := newPair(f)
	p.machines[0].Prepare(1, p.rename(), both)
	p.machines[0].Await(2, p.rename(), both)
	p.machines[0].post(1, &Command{Op: OpNumbers, Length: 1})
	p.machines[0].setPeer(1, &peer{posted: 3, executed: 4, refilling: true, pool: []span{{posix.MakeIno(1, 7), 9}}})
	for _, prefix := range []byte{prefixUndecided, prefixPeer, prefixPost} {
		for key, value := range p.keys[0].Scan([]byte{prefix}, []byte{prefix + 1}) {
			f.Add(bytes.Clone(key), bytes.Clone(value))
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if u, err := decodeUndecided(1, value); err == nil {
			again, err := decodeUndecided(1, u.encode())
			require.NoError(t, err)
			require.Equal(t, u.holds, again.holds)
			require.Equal(t, u.vote, again.vote)
		}
		if e, err := decodePeer(value); err == nil {
			p.machines[0].setPeer(1, &e)
			require.Equal(t, e, p.machines[0].peer(1))
		}
		if len(key) == postKeyLength {
			_, _ = decodePost(key, value)
		}
	})
}
