package meta

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
)

// reconcile reconciles the partitions of a forest, and checks that they are sound.
func (f *forest) reconcile(t *testing.T, short ...uint16) []string {
	t.Helper()
	var all []Keys
	var is [3]bool
	for _, p := range short {
		is[p] = true
	}
	for _, m := range f {
		all = append(all, m.keys)
		for key, value := range m.keys.Scan([]byte{prefixInode}, []byte{prefixInode + 1}) {
			n, err := decodeInode(inoOf(key), value)
			require.NoError(t, err)
			if n.cookie = 1000; n.Mode.IsDir() { // the tests give cookies without an account of them
				m.save(&n)
			}
			if n.Ino == file1 && n.Nlink > 0 {
				n.Size, n.Bytes = 10, 10
				m.save(&n)
			}
		}
	}
	changes, err := Reconcile(all, is[:], 77)
	require.NoError(t, err)
	for _, keys := range all {
		require.Empty(t, Check(keys))
	}
	require.Empty(t, CheckAll(all))
	again, err := Reconcile(all, is[:], 77)
	require.NoError(t, err)
	require.Empty(t, again, "a sound tree does not change")
	return changes
}

// nlink gives the links of an inode in a partition; 0: it is not there.
func (f *forest) nlink(at int, ino posix.Ino) uint32 {
	b := f[at].keys.Get(inodeKey(ino))
	if b == nil {
		return 0
	}
	n, _ := decodeInode(ino, b)
	return n.Nlink
}

func (f *forest) has(at int, dir posix.Ino, name string) bool {
	_, found := f[at].entry(dir, name)
	return found
}

// A sound forest keeps all its names. What the orphan holds goes with the sessions.
func TestReconcileOfSoundPartitions(t *testing.T) {
	f := sound(t)
	require.Empty(t, f.reconcile(t))
	require.Equal(t, uint32(2), f.nlink(1, file1))
	require.Zero(t, f.nlink(1, orphan0))
}

// Each rule of the reconciliation, with the report.
func TestReconcile(t *testing.T) {
	const dir, file = posix.TypeDir, posix.TypeRegular
	late := posix.MakeIno(1, 50)
	for name, test := range map[string]struct {
		harm  func(f *forest)
		short []uint16
		want  []string
		judge func(t *testing.T, f *forest)
	}{
		"J1: the copy in the short partition is old": {
			func(f *forest) { f.put(0, moved0, file, 1, 0) }, []uint16{0}, nil,
			func(t *testing.T, f *forest) {
				require.Zero(t, f.nlink(0, moved0))
				require.Equal(t, uint32(1), f.nlink(1, moved0))
			},
		},
		"J1: the later copy stays if both are short": {
			func(f *forest) {
				n := inode{Attr: posix.Attr{Ino: moved0, Mode: file, Nlink: 1, Ctime: 9}}
				f[2].save(&n)
			}, []uint16{1, 2}, nil,
			func(t *testing.T, f *forest) { require.Equal(t, uint32(1), f.nlink(2, moved0)) },
		},
		"J2: the inode is lost": {
			func(f *forest) { f.name(0, dir0, "x", late, file) }, []uint16{1},
			[]string{"/dir0/x: its file (inode 281474976710706) is in none of the surviving states: the name is removed"},
			func(t *testing.T, f *forest) { require.False(t, f.has(0, dir0, "x")) },
		},
		"J2: the number was given twice": {
			func(f *forest) { f.name(0, dir0, "x", file1, dir) }, []uint16{1},
			[]string{"/dir0/x: it names a directory, and inode 281474976710658 is a file now: the name is removed"}, nil,
		},
		"J3: a directory was moved out of a short partition": {
			func(f *forest) { f.name(2, dir2, "old", deep1, dir); f.name(0, dir0, "new", deep1, dir) }, []uint16{1, 2},
			[]string{"/dir0/dir2/deep1: directory 281474976710659 was moved from here: the name is removed", "/dir0/dir2/old: directory 281474976710659 was moved from here: the name is removed"},
			func(t *testing.T, f *forest) { require.True(t, f.has(0, dir0, "new")) },
		},
		"J3: the parent that the inode knows counts": {
			func(f *forest) { f.name(0, dir0, "new", deep1, dir) }, []uint16{0},
			[]string{"/dir0/new: directory 281474976710659 was moved from here: the name is removed"}, nil,
		},
		"J3: a cycle": {
			func(f *forest) {
				keys := f[0].keys
				keys.Delete(nameKey(prefixDirent, dir0, "dir2"))
				keys.Delete(placeKey(prefixCookie, dir0, 'd'))
				f.name(1, deep1, "up", dir2, dir)
			}, []uint16{0, 1, 2},
			[]string{
				"/1/lost+found/#281474976710659/up/deep1: directory 281474976710659 was inside of itself: the name is removed",
				"/1/lost+found/#281474976710659: a directory (inode 281474976710659) has lost its name, and is here now",
			}, nil,
		},
		"J4: a name is out of date": {
			func(f *forest) { f.put(1, file1, file, 1, 0) }, []uint16{2},
			[]string{"/dir0/dir2/link to file1: inode 281474976710658 was renamed or removed here: the name is removed"},
			func(t *testing.T, f *forest) { require.Equal(t, uint32(1), f.nlink(1, file1)) },
		},
		"J4: one of several names is out of date": {
			func(f *forest) { f.name(2, dir2, "another", file1, file) }, []uint16{2},
			[]string{
				"/dir0/dir2/another: one of 2 names of inode 281474976710658 was removed, and it is not known which one: all stay",
				"/dir0/dir2/link to file1: one of 2 names of inode 281474976710658 was removed, and it is not known which one: all stay",
			},
			func(t *testing.T, f *forest) { require.Equal(t, uint32(3), f.nlink(1, file1)) },
		},
		"J4: a command with an unknown outcome was dropped at a name": {
			func(f *forest) { f.put(1, file1, file, 1, 0) }, nil,
			[]string{
				"/dir0/dir2/link to file1: one of 2 names of inode 281474976710658 was removed, and it is not known which one: all stay",
				"/dir0/file1: one of 2 names of inode 281474976710658 was removed, and it is not known which one: all stay",
			},
			func(t *testing.T, f *forest) { require.Equal(t, uint32(2), f.nlink(1, file1)) },
		},
		"J4: the links of a short partition are out of date": {
			func(f *forest) { f.put(1, file1, file, 1, 0) }, []uint16{1}, nil,
			func(t *testing.T, f *forest) { require.Equal(t, uint32(2), f.nlink(1, file1)) },
		},
		"J5: a name is lost": {
			func(f *forest) { f.put(1, late, file, 1, 0) }, []uint16{0},
			[]string{"/1/lost+found/#281474976710706: a file (inode 281474976710706) has lost its name, and is here now"},
			func(t *testing.T, f *forest) { require.Equal(t, uint32(1), f.nlink(1, late)) },
		},
		"J5: the root of the partition has no name": {
			func(f *forest) {
				f.put(1, late, dir, 2, dir2)
				f[0].keys.Delete(nameKey(prefixDirent, posix.Root, "1"))
				f[0].keys.Delete(placeKey(prefixCookie, posix.Root, '1'))
			}, []uint16{0},
			[]string{"/lost+found/#281474976710706: a directory (inode 281474976710706) has lost its name, and is here now"}, nil,
		},
		"J5: lost+found exists, and is a file": {
			func(f *forest) {
				f.put(1, late, file, 1, 0)
				f.put(1, late+1, file, 1, 0)
				f.name(1, posix.MakeIno(1, 1), "lost+found", late+1, file)
			}, []uint16{0},
			[]string{"/1/lost+found.2/#281474976710706: a file (inode 281474976710706) has lost its name, and is here now"}, nil,
		},
		"J5: a directory was removed": {
			func(f *forest) {
				f.put(1, late, dir, 0, dir0)
				f.name(0, dir0, "gone", late, dir)
			}, []uint16{0},
			[]string{"/dir0/gone: inode 281474976710706 was renamed or removed here: the name is removed"},
			func(t *testing.T, f *forest) { require.Zero(t, f.nlink(1, late)) },
		},
		"J6: two inodes hold a block": {
			func(f *forest) {
				f.put(0, posix.MakeIno(0, 60), file, 1, 0)
				f.name(0, dir0, "thief", posix.MakeIno(0, 60), file)
				n := inode{Attr: posix.Attr{Ino: posix.MakeIno(0, 60), Mode: file | 0o644, Nlink: 1, Size: 10}}
				f[0].setExtent(&n, &Extent{Length: 10, Block: held})
				f[0].save(&n)
			}, []uint16{1},
			[]string{"/dir0/file1: 10 bytes from 0 on belong to another file, and are zeros now"}, nil,
		},
		"the rule of the table is newer": {
			func(f *forest) { f[2].keys.Delete(ruleKey(dir2)) }, []uint16{2},
			[]string{"/dir0/dir2/: its placement rule differed from the table: the newer one of both is kept"},
			func(t *testing.T, f *forest) { require.NotNil(t, f[2].keys.Get(ruleKey(dir2))) },
		},
		"a directory of the table is lost": {
			func(f *forest) {
				c := Command{Ino: late, Data: (&Rule{Spread: []uint16{1}}).Append(nil)}
				f[0].placeTable(&c)
				f[0].addTask(late+200, 2)
			}, []uint16{1}, nil,
			func(t *testing.T, f *forest) {
				require.Nil(t, f[0].keys.Get(placementKey(late)))
				require.Nil(t, f[0].keys.Get(taskKey(late+200)))
				_, s, err := decodeState(f[1].keys.Get(stateKey))
				require.NoError(t, err)
				require.Equal(t, (late + 200).Counter(), s.last, "the number is not given again")
			},
		},
		"the rule of the table is lost": {
			func(f *forest) { f[0].keys.Delete(placementKey(dir2)) }, []uint16{0},
			[]string{"/dir0/dir2/: its placement rule differed from the table: the newer one of both is kept"},
			func(t *testing.T, f *forest) { require.NotNil(t, f[0].keys.Get(placementKey(dir2))) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound(t)
			test.harm(&f)
			require.ElementsMatch(t, test.want, f.reconcile(t, test.short...))
			if test.judge != nil {
				test.judge(t, &f)
			}
		})
	}
}

// A post that was not executed still makes its inode. The numbers of posts go on behind all that were made.
func TestReconcileEndsPosts(t *testing.T) {
	f := sound(t)
	made := posix.MakeIno(1, 30)
	n := inode{Attr: posix.Attr{Ino: made, Mode: posix.TypeRegular | 0o600, Nlink: 1}}
	f.name(0, dir0, "young", made, posix.TypeRegular)
	f[0].post(1, &Command{Op: OpMake, Child: made, Data: exportOf(t, &n)})
	f[0].post(1, &Command{Op: OpNumbers, Length: 5})
	ahead := f[1].peer(2) // which has lost posts that were executed
	ahead.executed = 9
	f[1].setPeer(2, &ahead)
	require.Empty(t, f.reconcile(t, 1, 2))
	require.Equal(t, uint32(1), f.nlink(1, made))
	require.Empty(t, f[0].keys.Get(postKey(1, 1)))
	sender, receiver := f[0].peer(1), f[1].peer(0)
	require.Equal(t, sender.posted, receiver.executed)
	require.Equal(t, uint64(9), f[2].peer(1).posted)
}

// exportOf gives the encoding of an inode in OpMake.
func exportOf(t *testing.T, n *inode) []byte {
	m, err := New(kv.NewMemory(), Config{})
	require.NoError(t, err)
	return m.export(n)
}

// Undecided commands must have ended before.
func TestReconcileRefusesOpenCommands(t *testing.T) {
	f := sound(t)
	f[1].Prepare(1, &Command{Op: OpUnlink, Ino: dir0, Name: "file1", Child: file1}, []uint16{0, 1})
	_, err := Reconcile([]Keys{f[0].keys, f[1].keys, f[2].keys}, make([]bool, 3), 0)
	require.ErrorContains(t, err, "partition 1 has undecided commands")
}
