package meta

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
)

// forest is three partitions. A test writes their keys itself.
type forest [3]*Machine

func newForest(t *testing.T) forest {
	var f forest
	for p := range f {
		var err error
		f[p], err = New(kv.NewMemory(), Config{Partition: uint16(p)})
		require.NoError(t, err)
		f[p].state.last = 100
		f[p].saveState()
	}
	return f
}

func (f *forest) check() []string {
	var all []Keys
	for _, m := range f {
		all = append(all, m.keys)
	}
	return CheckAll(all)
}

// put stores an inode in a partition.
func (f *forest) put(at int, ino posix.Ino, kind posix.Mode, nlink uint32, parent posix.Ino) {
	n := inode{Attr: posix.Attr{Ino: ino, Mode: kind | 0o644, Nlink: nlink}, parent: parent, cookie: firstCookie}
	f[at].save(&n)
}

// name writes an entry of a directory in a partition.
func (f *forest) name(at int, dir posix.Ino, name string, ino posix.Ino, kind posix.Mode) {
	f[at].setEntry(dir, &entry{name: name, ino: ino, kind: kind, cookie: uint64(name[0])})
}

// The inodes of the sound forest; the home of an inode is in its name.
var (
	dir0    = posix.MakeIno(0, 2) // lives at home, has names of inodes of all partitions
	dir2    = posix.MakeIno(2, 2) // in dir0
	deep1   = posix.MakeIno(1, 3) // in dir2
	file1   = posix.MakeIno(1, 2) // with two names, in partitions 0 and 2
	moved0  = posix.MakeIno(0, 3) // lives in partition 1
	orphan0 = posix.MakeIno(0, 4) // in partition 1, without a name
	held    = posix.MakeBlockID(0, 1, 1)
)

func sound(t *testing.T) forest {
	const dir, file = posix.TypeDir, posix.TypeRegular
	f := newForest(t)
	f.put(0, dir0, dir, 3, posix.Root)
	f.put(2, dir2, dir, 3, dir0)
	f.put(1, deep1, dir, 2, dir2)
	f.put(1, file1, file, 2, 0)
	f.put(1, moved0, file, 1, 0)
	f.put(1, orphan0, file, 0, 0)
	f.name(0, posix.Root, "1", posix.MakeIno(1, 1), dir)
	f.name(0, posix.Root, "2", posix.MakeIno(2, 1), dir)
	f.name(0, posix.Root, "dir0", dir0, dir)
	f.name(0, dir0, "dir2", dir2, dir)
	f.name(2, dir2, "deep1", deep1, dir)
	f.name(0, dir0, "file1", file1, file)
	f.name(2, dir2, "link to file1", file1, file)
	f.name(0, dir0, "moved0", moved0, file)
	f[0].forward(moved0, 1)
	f[0].forward(orphan0, 1)
	f[0].addOrphan(orphan0, 7)
	f[1].recordOrphan(orphan0, 7)
	f[1].setExtent(&inode{Attr: posix.Attr{Ino: file1}}, &Extent{Length: 10, Block: held})
	f[1].comes(held)
	f[0].setBlock(held, blockRecord{state: blockAway, length: 10})
	for _, d := range []posix.Ino{dir0, dir2} {
		c := Command{Ino: d, Data: (&Rule{Spread: []uint16{1}}).Append(nil)}
		f[d.Partition()].placeHere(&c)
		f[0].placeTable(&c)
	}
	f[2].addTask(dir2, 0)
	return f
}

func TestCheckAllOfSoundPartitions(t *testing.T) {
	f := sound(t)
	require.Empty(t, f.check())
}

// If a store belongs to another partition, or is no store, CheckAll reports only this.
func TestCheckAllOfOthersStores(t *testing.T) {
	f := sound(t)
	f[1].keys.Delete(stateKey)
	f[2].keys.Set(stateKey, f[0].keys.Get(stateKey))
	require.Equal(t, []string{
		"partition 1: there is no state",
		"partition 2: what is stored for it is partition 0",
	}, f.check())
	f[1].keys.Set(stateKey, []byte{99})
	f[2] = sound(t)[2]
	require.Len(t, f.check(), 1)
}

func TestCheckAllFindsContradictions(t *testing.T) {
	const dir, file = posix.TypeDir, posix.TypeRegular
	outside := posix.MakeIno(7, 2)
	unmade := posix.MakeIno(0, 101)
	for name, test := range map[string]struct {
		harm func(f *forest)
		want []string
	}{
		"two places": {
			func(f *forest) { f.put(2, file1, file, 2, 0) },
			[]string{"inode 281474976710658 is in partition 1 and in partition 2"},
		},
		"nowhere": {
			func(f *forest) { f[1].keys.Delete(inodeKey(file1)) },
			[]string{
				`entry "file1" of directory 2 in partition 0 names inode 281474976710658, which is nowhere`,
				`entry "link to file1" of directory 562949953421314 in partition 2 names inode 281474976710658, which is nowhere`,
			},
		},
		"wrong type": {
			func(f *forest) { f.name(0, dir0, "moved0", moved0, posix.TypeSymlink) },
			[]string{`entry "moved0" of directory 2 in partition 0 names inode 3 as a symbolic link: in partition 1 it is a file`},
		},
		"too many links": {
			func(f *forest) { f.put(1, file1, file, 3, 0) },
			[]string{"inode 281474976710658 in partition 1 has 3 links: 2 entries name it"},
		},
		"directory of two names": {
			func(f *forest) { f.name(1, deep1, "dir2", dir2, dir) },
			[]string{
				"directory 562949953421314 in partition 2 has 3 links: 2 entries name it",
				`directory 562949953421314 in partition 2 says that it is in directory 2, but it is entry "dir2" of directory 281474976710659 in partition 1`,
			},
		},
		"removed directory with a name": {
			func(f *forest) { f.put(1, deep1, dir, 0, dir2) },
			[]string{"directory 281474976710659 in partition 1 has 0 links: 1 entries name it"},
		},
		"root of two names": {
			func(f *forest) { f.name(0, posix.Root, "again", posix.MakeIno(1, 1), dir) },
			[]string{"directory 281474976710657 in partition 1 has 2 links: 2 entries name it"},
		},
		"cycle": {
			func(f *forest) {
				f[0].keys.Delete(nameKey(prefixDirent, dir0, "dir2"))
				f.put(2, dir2, dir, 3, deep1)
				f.name(1, deep1, "dir2", dir2, dir)
			},
			[]string{"directories that are inside each other, cut off from the root: 281474976710659 in partition 1, 562949953421314 in partition 2"},
		},
		"parent is nowhere": {
			func(f *forest) {
				f[0].keys.Delete(nameKey(prefixDirent, dir0, "dir2"))
				f.put(2, dir2, dir, 3, 50)
			},
			[]string{
				"directory 562949953421314 in partition 2 has 3 links: 0 entries name it",
				"directory 562949953421314 in partition 2: directory 50, where it should be, is nowhere",
			},
		},
		"parent is a file": {
			func(f *forest) { f.put(2, dir2, dir, 3, file1) },
			[]string{
				`directory 562949953421314 in partition 2 says that it is in directory 281474976710658, but it is entry "dir2" of directory 2 in partition 0`,
				"directory 562949953421314 in partition 2: inode 281474976710658, where it should be, is no directory any more in partition 1",
			},
		},
		"never made": {
			func(f *forest) { f.put(0, unmade, file, 1, 0); f.name(0, dir0, "unmade", unmade, file) },
			[]string{"inode 101 in partition 0 was never made by its home, partition 0"},
		},
		"home outside": {
			func(f *forest) { f.put(0, outside, file, 1, 0); f.name(0, dir0, "outside", outside, file) },
			[]string{"inode 1970324836974594 in partition 0 was never made by its home, partition 7"},
		},
		"no forwarding": {
			func(f *forest) { f[0].keys.Delete(forwardingKey(moved0)) },
			[]string{"inode 3 is in partition 1: its home, partition 0, does not say so"},
		},
		"wrong forwarding": {
			func(f *forest) { f[0].forward(moved0, 2) },
			[]string{"inode 3 is in partition 1: its home, partition 0, says that it is in partition 2"},
		},
		"forwarding of what is at home": {
			func(f *forest) { f[0].forward(dir0, 2) },
			[]string{"inode 2 is at home, in partition 0, which says that it is in partition 2"},
		},
		"forwarding to nowhere": {
			func(f *forest) { f[0].forward(9, 2) },
			[]string{"inode 9: its home, partition 0, says that it is in partition 2, but it is nowhere"},
		},
		"forwarding elsewhere": {
			func(f *forest) { f[2].keys.Set(forwardingKey(moved0), f[0].keys.Get(forwardingKey(moved0))) },
			[]string{"inode 3: partition 2 has a forwarding for it, but is not its home"},
		},
		"home does not know an orphan": {
			func(f *forest) { f[0].keys.Delete(orphanKey(orphan0)) },
			[]string{"inode 4 in partition 1 has no links: its home, partition 0, does not know, and nobody tells it"},
		},
		"orphan at home only": {
			func(f *forest) { f[0].addOrphan(moved0, 8) },
			[]string{"inode 3 in partition 1 has 1 links: its home, partition 0, takes it for an orphan"},
		},
		"rule without row": {
			func(f *forest) { f[0].keys.Delete(placementKey(dir2)) },
			[]string{"directory 562949953421314 in partition 2 has a rule that is not in the table of partition 0"},
		},
		"row without rule": {
			func(f *forest) { f[2].keys.Delete(ruleKey(dir2)) },
			[]string{"directory 562949953421314 in partition 2 does not have the rule that is in the table of partition 0"},
		},
		"other rule": {
			func(f *forest) { f[2].setRule(dir2, &Rule{Region: "r"}) },
			[]string{"directory 562949953421314 in partition 2 has another rule than the table of partition 0"},
		},
		"rule elsewhere": {
			func(f *forest) { f[1].setRule(dir2, &Rule{Spread: []uint16{1}}) },
			[]string{"partition 1 has a rule for directory 562949953421314, which is not there"},
		},
		"row elsewhere": {
			func(f *forest) { f[1].placeTable(&Command{Ino: dir2, Data: (&Rule{Spread: []uint16{1}}).Append(nil)}) },
			[]string{"placement of directory 562949953421314 is in partition 1, not in the table of partition 0"},
		},
		"what does not decode": {
			func(f *forest) {
				for _, key := range [][]byte{ruleKey(dir0), placementKey(dir0), taskKey(dir0)} {
					f[0].keys.Set(key, []byte{0xff})
				}
			},
			[]string{
				"placement of directory 2 in partition 0 does not decode: malformed encoding",
				"rule of directory 2 in partition 0 does not decode: rule: malformed encoding",
				"task of directory 2 in partition 0 does not decode: malformed encoding",
			},
		},
		"held block that is dropped elsewhere": {
			func(f *forest) { f[2].enqueue(held, blockRecord{}) },
			[]string{"block " + held.String() + " is held in partition 1, but partition 2 has dropped it"},
		},
		"held block that is dropped at home": {
			func(f *forest) { f[0].enqueue(held, blockRecord{}) },
			[]string{"block " + held.String() + " is held in partition 1: its home, partition 0, says: dropped, 1 in the queue"},
		},
		"held block that home has forgotten": {
			func(f *forest) { f[0].keys.Delete(blockKey(held)) },
			[]string{"block " + held.String() + " is held in partition 1: its home, partition 0, says: nothing"},
		},
		"block held in three partitions": {
			func(f *forest) {
				f[2].comes(held)
				f[0].setBlock(held, blockRecord{blockHeld, 1, 10})
			},
			[]string{
				"block " + held.String() + " is held in partition 1: its home, partition 0, says: held by 1 extents",
				"block " + held.String() + " is held in partition 2: its home, partition 0, says: held by 1 extents",
				"block " + held.String() + " is held in partitions [1 2]",
			},
		},
		"held at home, dropped elsewhere": {
			func(f *forest) {
				f[1].keys.Delete(blockKey(held))
				f[1].enqueue(held, blockRecord{})
				f[0].setBlock(held, blockRecord{blockHeld, 1, 10})
			},
			[]string{"block " + held.String() + " is held in its home, partition 0, but partition 1 has dropped it"},
		},
		"away, and nowhere": {
			func(f *forest) { f[1].keys.Delete(blockKey(held)) },
			[]string{"block " + held.String() + " is away, says its home, partition 0: no partition holds it, and none is about to say so"},
		},
		"block of no partition": {
			func(f *forest) { f[1].setBlock(posix.MakeBlockID(7, 1, 1), blockRecord{number: 1}) },
			[]string{"block 00070000000000010000000000000001 is held in partition 1: its home, partition 7, says: nothing"},
		},
		"number in two pools": {
			func(f *forest) {
				pool := []span{{f[1].reserveNumbers(1), 1}}
				f[0].setPeer(1, &peer{pool: pool})
				f[2].setPeer(1, &peer{pool: pool})
			},
			[]string{"number 281474976710757 is in the pools of partition 0 and of partition 2"},
		},
		"number that is not reserved": {
			func(f *forest) { f[0].setPeer(1, &peer{pool: []span{{posix.MakeIno(1, 50), 1}}}) },
			[]string{"number 281474976710706 is in the pool of partition 0: its own partition has not reserved it"},
		},
		"said to be dropped": {
			func(f *forest) { f[1].post(0, &Command{Op: OpDropped, Blocks: []Block{{ID: held}}}) },
			[]string{"block " + held.String() + " is held in partition [1], but a post says that it was dropped"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound(t)
			test.harm(&f)
			require.Equal(t, test.want, f.check())
		})
	}
}

// An inode away from home that is being given up is sound at every step.
func TestCheckAllOfWhatIsUnderWay(t *testing.T) {
	f := sound(t)
	f[0].keys.Delete(orphanKey(orphan0))
	f[1].post(0, &Command{Op: OpGone, Child: orphan0, Target: 1})
	require.Empty(t, f.check(), "home is to be told")
	f = sound(t)
	f[0].Reap(orphan0, 77)
	require.Empty(t, f.check(), "home has told")
	f[0].keys.Delete(postKey(1, f[0].peer(1).posted))
	require.Len(t, f.check(), 2, "nobody tells")
	f[1].ExecutePosts(0, 1, []Command{{Op: OpReleased, Child: orphan0}}, 9, 9)
	require.Empty(t, f.check())
}

// A block that was dropped away from home is sound at every step.
func TestCheckAllOfADroppedBlock(t *testing.T) {
	f := sound(t)
	f[1].reference(held, -1)
	f[1].saveState()
	require.Empty(t, f.check(), "home is to be told")
	names := Command{Blocks: []Block{{ID: held}}}
	f[1].collected(&names)
	require.Empty(t, f.check(), "its copies there are collected before that")
	f[1].enqueue(held, blockRecord{})
	f[0].droppedAway(&names)
	require.Empty(t, f.check(), "home knows, the post is still there")
	f[0].collected(&names)
	require.Empty(t, f.check(), "home has collected it")
	f[1].keys.Delete(postKey(0, f[1].peer(0).posted))
	require.Empty(t, f.check())
}

func TestUndecided(t *testing.T) {
	f := sound(t)
	require.Zero(t, Undecided(f[0].keys))
	c := Command{Op: OpMove, Child: moved0, Target: 0}
	vote := f[0].Prepare(5, &c, []uint16{0, 1}).Encoded
	require.Equal(t, 1, Undecided(f[0].keys))
	f[0].Decide(5, [][]byte{vote, f[1].Prepare(5, &c, []uint16{0, 1}).Encoded}, 9)
	require.Zero(t, Undecided(f[0].keys))
	require.Equal(t, 1, Undecided(f[1].keys))
}

// Keys that do not decode are Check's to tell: here they must only do no harm.
func TestCheckAllReadsAnything(t *testing.T) {
	for prefix := range byte(0x40) {
		for _, length := range []int{0, 1, 7, 8, 9, 16, 40} {
			f := sound(t)
			f[1].keys.Set(append([]byte{prefix}, make([]byte, length)...), []byte{0xff, 0xff})
			f.check()
		}
	}
}

// A directory that is gone may still have its row.
func TestCheckAllLetsGoneDirectoriesBe(t *testing.T) {
	f := sound(t)
	f[0].placeTable(&Command{Ino: 77, Data: (&Rule{Region: "r"}).Append(nil)})
	require.Empty(t, f.check())
}
