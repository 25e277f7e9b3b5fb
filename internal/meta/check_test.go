package meta

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
)

// populated returns a small state that has every kind of key.
func populated(t *testing.T) *kv.Store {
	keys := kv.NewMemory()
	m, err := New(keys, Config{Genesis: []Birth{{"remote", posix.MakeIno(1, 1)}}})
	require.NoError(t, err)
	k := func(n uint64) []Block { return []Block{{posix.MakeBlockID(0, 1, n), 100}} }
	for i, c := range []Command{
		{Op: OpMknod, Ino: posix.Root, Name: "dir", Mode: posix.TypeDir | 0o755},           // 2
		{Op: OpMknod, Ino: 2, Name: "file", Mode: 0o644},                                   // 3
		{Op: OpMknod, Ino: 2, Name: "link", Mode: posix.TypeSymlink, Data: []byte("file")}, // 4
		{Op: OpMknod, Ino: 2, Name: "gone", Mode: 0o644},                                   // 5
		{Op: OpUnlink, Ino: 2, Name: "gone"},
		{Op: OpWrite, Ino: 3, Data: []byte("literal")},
		{Op: OpWrite, Ino: 3, Blocks: k(1), Offset: 1000},
		{Op: OpWrite, Ino: 3, Blocks: k(2), Offset: 2000},
		{Op: OpWrite, Ino: 3, Blocks: k(3), Offset: 2000},
		{Op: OpSetXattr, Ino: 3, Name: "user.x", Data: []byte("v")},
	} {
		c.Session = 1
		require.Equal(t, posix.OK, m.Apply(&c, uint64(i+1)).Code, "%+v", c)
	}
	require.Empty(t, Check(keys))
	return keys
}

// Check sees when any key is missing, and when any value does not decode.
func TestCheckMissesNoKey(t *testing.T) {
	var all [][]byte
	for k := range populated(t).Scan(nil, nil) {
		all = append(all, bytes.Clone(k))
	}
	seen := map[byte]bool{}
	for _, k := range all {
		seen[k[0]] = true
		keys := populated(t)
		keys.Delete(k)
		require.NotEmpty(t, Check(keys), "without key %x", k)
		if k[0] == prefixXattr {
			continue // any value will do
		}
		keys.Set(k, []byte{0xff})
		require.NotEmpty(t, Check(keys), "with a bad value of key %x", k)
	}
	require.Len(t, seen, int(prefixDropped), "every kind of key was tried")
}

// Check sees each invariant broken by a state that decodes.
func TestCheckFindsContradictions(t *testing.T) {
	change := func(ino posix.Ino, do func(n *inode)) func(keys *kv.Store) {
		return func(keys *kv.Store) {
			n, err := decodeInode(ino, keys.Get(inodeKey(ino)))
			if err != nil {
				panic(err)
			}
			do(&n)
			keys.Set(inodeKey(ino), n.encode())
		}
	}
	literal := (&Extent{Data: []byte("12345")}).encode()
	record := func(n uint64, k blockRecord) func(keys *kv.Store) {
		return func(keys *kv.Store) { keys.Set(blockKey(posix.MakeBlockID(0, 1, n)), k.encode()) }
	}
	for want, breakIt := range map[string]func(keys *kv.Store){
		"0 links, should be 1":                  change(3, func(n *inode) { n.Nlink = 0 }),
		"3 links, should be 2":                  change(2, func(n *inode) { n.Nlink = 3 }),
		"says 9 entries":                        change(2, func(n *inode) { n.Size = 9 }),
		"its parent is 77":                      change(2, func(n *inode) { n.parent = 77 }),
		"is not below the root":                 change(2, func(n *inode) { n.parent = 2 }),
		"was never given":                       change(2, func(n *inode) { n.cookie = 3 }),
		"of type 100000 is not there":           change(3, func(n *inode) { n.Mode = posix.TypeFIFO }),
		"says 1 bytes and 7 of xattr names":     change(3, func(n *inode) { n.Bytes = 1 }),
		"the file at 1500":                      change(3, func(n *inode) { n.Size = 1500 }),
		"inode 5: 0 links, orphan: false":       func(keys *kv.Store) { keys.Delete(orphanKey(5)) },
		"the one before ends at 7":              func(keys *kv.Store) { keys.Set(placeKey(prefixExtent, 3, 8), literal) },
		"inode 900 was never made":              func(keys *kv.Store) { keys.Set(inodeKey(900), keys.Get(inodeKey(5))) },
		"\"b/d\" has no entry like it":          func(keys *kv.Store) { keys.Set(placeKey(prefixCookie, 2, 3), []byte("\x03\x00\x00b/d")) },
		"directory 2: 1 entries have no cookie": func(keys *kv.Store) { keys.Delete(placeKey(prefixCookie, 2, 3)) },
		"cookie 3 of 900: \"x\" has no entry":   func(keys *kv.Store) { keys.Set(placeKey(prefixCookie, 900, 3), []byte("\x03\x00\x00x")) },
		"cookie 3 of 0: \"x\" has no entry":     func(keys *kv.Store) { keys.Set(placeKey(prefixCookie, 0, 3), []byte("\x03\x00\x00x")) },
		"key 0409 is too short":                 func(keys *kv.Store) { keys.Set([]byte{prefixCookie, 9}, nil) },
		"is too short":                          func(keys *kv.Store) { keys.Set([]byte{prefixExtent, 1}, nil) },
		"number 3 is reserved and in use":       func(keys *kv.Store) { keys.Set(reservationKey(3), []byte{1 << 3}) },
		"the newest is 5":                       func(keys *kv.Store) { keys.Set(reservationKey(6), []byte{1 << 6}) },
		"there is no state":                     func(keys *kv.Store) { keys.Delete(stateKey) },
		"held by 1 extents, 2 extents hold it": func(keys *kv.Store) {
			e := Extent{Block: posix.MakeBlockID(0, 1, 1), Length: 10}
			keys.Set(placeKey(prefixExtent, 3, 900), e.encode())
		},
		"is held by inode 3 and by inode 5": func(keys *kv.Store) {
			change(5, func(n *inode) { n.Size = 100 })(keys)
			e := Extent{Block: posix.MakeBlockID(0, 1, 1), Length: 10}
			keys.Set(placeKey(prefixExtent, 5, 10), e.encode())
		},
		"says away, 1 extents hold it":              record(1, blockRecord{blockAway, 0, 100}),
		"says held by 2 extents, 1 extents hold it": record(1, blockRecord{blockHeld, 2, 100}),
		"is to take it to another partition":        record(1, blockRecord{blockGoing, 1, 100}),
		"says held by 1 extents and 0 bytes":        record(1, blockRecord{blockHeld, 1, 0}),
		"Bytes:200 Dropped:1 DroppedBytes:100} are": record(1, blockRecord{blockHeld, 1, 99}),
		"and it is not in the queue":                record(2, blockRecord{blockQueued, 7, 100}),
		"in the queue of dropped blocks, of 1":      func(keys *kv.Store) { keys.Set(numberKey(prefixDropped, 2), keys.Get(numberKey(prefixDropped, 1))) },
	} {
		keys := populated(t)
		breakIt(keys)
		require.Contains(t, fmt.Sprint(Check(keys)), want)
	}
}

// A cookie is compared with the names of its own directory only.
func TestCookieOfAnotherDirectory(t *testing.T) {
	keys := kv.NewMemory()
	m, err := New(keys, Config{})
	require.NoError(t, err)
	for i, c := range []Command{
		{Op: OpMknod, Ino: posix.Root, Name: "empty", Mode: posix.TypeDir | 0o755}, // 2
		{Op: OpMknod, Ino: posix.Root, Name: "full", Mode: posix.TypeDir | 0o755},  // 3
		{Op: OpMknod, Ino: 3, Name: "file", Mode: 0o644},
	} {
		require.Equal(t, posix.OK, m.Apply(&c, uint64(i+1)).Code)
	}
	require.Empty(t, Check(keys))
	keys.Set(placeKey(prefixCookie, 2, firstCookie), keys.Get(placeKey(prefixCookie, 3, firstCookie)))
	require.Contains(t, fmt.Sprint(Check(keys)), "cookie 3 of 2: \"file\" has no entry like it")
}

// Link counts end where 31 bits do.
func TestMaxLinks(t *testing.T) {
	keys := populated(t)
	m, err := New(keys, Config{})
	require.NoError(t, err)
	for _, ino := range []posix.Ino{2, 3} {
		n, _ := m.inode(ino)
		n.Nlink = posix.MaxLinks
		m.save(&n)
	}
	for name, c := range map[string]Command{
		"link":   {Op: OpLink, Ino: 3, NewParent: 1, NewName: "x"},
		"mkdir":  {Op: OpMknod, Ino: 2, Name: "x", Mode: posix.TypeDir},
		"rename": {Op: OpRename, Ino: 1, Name: "other", NewParent: 2, NewName: "x"},
		"swap":   {Op: OpRename, Ino: 2, Name: "link", NewParent: 1, NewName: "other", Flags: RenameExchange},
	} {
		if c.Op == OpRename {
			m.Apply(&Command{Op: OpMknod, Ino: 1, Name: "other", Mode: posix.TypeDir}, 1)
		}
		require.Equal(t, posix.EMLINK, m.Apply(&c, 2).Code, name)
	}
}

// Damaged stored keys and values cause no panic in Check, which reads all of them.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{prefixInode, 0, 0, 0, 0, 0, 0, 0, 9}, []byte{1, 2, 3})
	f.Add(placeKey(prefixExtent, 3, 100), []byte{0, 'x'})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if len(key) == 0 {
			return
		}
		keys := populated(t)
		keys.Set(key, value)
		Check(keys)
	})
}
