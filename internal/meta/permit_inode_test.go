package meta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// inodes are the operations on one inode: w.n is a file, w.d the directory that holds it.
var inodes = map[string]struct {
	c        meta.Command
	dir      bool // it is about the directory
	needs    []need
	personal bool // the user that the client names matters
}{
	"chmod":            {set(meta.SetMode, posix.Attr{Mode: 0o600}), false, []need{owner(theFile)}, true},
	"chown":            {set(meta.SetUID, posix.Attr{UID: 1001}), false, []need{owner(theFile), never(posix.EPERM)}, true},
	"chown to himself": {set(meta.SetUID, posix.Attr{UID: 1000}), false, []need{owner(theFile), isOwner(1000)}, true},
	"chgrp":            {set(meta.SetGID, posix.Attr{GID: 1000}), false, []need{owner(theFile)}, true},
	"chgrp, a strange one": {set(meta.SetGID, posix.Attr{GID: 301}), false,
		[]need{owner(theFile), never(posix.EPERM)}, true},
	"utimes":         {set(meta.SetMtime|meta.SetAtime, posix.Attr{Mtime: 5}), false, []need{owner(theFile)}, true},
	"ctime":          {set(meta.SetCtime, posix.Attr{Ctime: 5}), false, []need{owner(theFile)}, true},
	"touch":          {set(meta.SetMtimeNow|meta.SetAtimeNow, posix.Attr{}), false, []need{either(owner(theFile), user(theFile, posix.Write, posix.EACCES))}, true},
	"set what is no": {set(1<<31, posix.Attr{}), false, []need{never(posix.EINVAL)}, true},
	"truncate":       {set(meta.SetSize, posix.Attr{Size: 9}), false, []need{machine(theFile, posix.Write)}, false},
	"truncate, with its times": {set(meta.SetSize|meta.SetMtimeNow|meta.KillSetID, posix.Attr{Size: 9}), false,
		[]need{machine(theFile, posix.Write)}, false},
	"truncate and chmod": {set(meta.SetSize|meta.SetMode, posix.Attr{Mode: 0o600}), false, []need{owner(theFile)}, true},
	"open to cut":        {meta.Command{Op: meta.OpMknod, Name: "f", Flags: meta.Truncate}, true, []need{search, user(theFile, posix.Write, posix.EACCES)}, true},
	"write":              {meta.Command{Op: meta.OpWrite, Data: []byte("x")}, false, []need{machine(theFile, posix.Write)}, false},
	"fallocate":          {meta.Command{Op: meta.OpFallocate, Length: 5}, false, []need{machine(theFile, posix.Write)}, false},
	"read":               {meta.Command{Op: meta.OpExtents, Length: 9}, false, []need{machine(theFile, posix.Read, posix.Execute)}, false},
	"lock":               {meta.Command{Op: meta.OpLock, Flags: meta.LockFlock}, false, []need{machine(theFile, posix.Read, posix.Write, posix.Execute)}, false},
	"look at locks":      {meta.Command{Op: meta.OpGetLock}, false, []need{machine(theFile, posix.Read, posix.Write, posix.Execute)}, false},
	"unlock":             {meta.Command{Op: meta.OpLock, Flags: meta.LockFlock | meta.LockUnlock}, false, nil, false},
	"set xattr":          {meta.Command{Op: meta.OpSetXattr, Name: "user.a"}, false, []need{user(theFile, posix.Write, posix.EACCES)}, true},
	"set trusted xattr":  {meta.Command{Op: meta.OpSetXattr, Name: "trusted.a"}, false, []need{never(posix.EPERM)}, true},
	"set xattr of a directory": {meta.Command{Op: meta.OpSetXattr, Name: "user.a"}, true,
		[]need{stickyOwner, user(theDir, posix.Write, posix.EACCES)}, true},
	"remove xattr":         {meta.Command{Op: meta.OpRemoveXattr, Name: "user.b"}, false, []need{user(theFile, posix.Write, posix.EACCES)}, true},
	"remove trusted xattr": {meta.Command{Op: meta.OpRemoveXattr, Name: "trusted.b"}, false, []need{never(posix.EPERM)}, true},
	"get xattr":            {meta.Command{Op: meta.OpGetXattr, Name: "user.b"}, false, []need{machine(theFile, posix.Read)}, false},
	"get trusted xattr":    {meta.Command{Op: meta.OpGetXattr, Name: "trusted.b"}, false, []need{never(posix.ENODATA)}, false},
	"stat":                 {meta.Command{Op: meta.OpGetAttr}, false, nil, false},
	"lookup":               {meta.Command{Op: meta.OpLookup, Name: "f"}, true, []need{machine(theDir, posix.Execute)}, false},
	"lookup of nothing":    {meta.Command{Op: meta.OpLookup, Name: "none"}, true, []need{machine(theDir, posix.Execute), never(posix.ENOENT)}, false},
	"read a directory":     {meta.Command{Op: meta.OpReadDir, Length: 9}, true, []need{machine(theDir, posix.Read)}, false},
	"rule":                 {meta.Command{Op: meta.OpRule}, true, nil, false},
	"chain":                {meta.Command{Op: meta.OpChain}, true, nil, false},
	"statfs":               {meta.Command{Op: meta.OpStatFS}, true, nil, false},
}

// refused has the operations that no client may use.
var refused = map[string]bool{
	"chown": true, "chgrp, a strange one": true, "set what is no": true, "set trusted xattr": true, "remove trusted xattr": true,
	"get trusted xattr": true, "lookup of nothing": true,
}

func set(what uint32, a posix.Attr) meta.Command {
	return meta.Command{Op: meta.OpSetAttr, Set: what, Attr: a}
}

func on(ino posix.Ino, c meta.Command) meta.Command {
	c.Ino = ino
	return c
}

func isOwner(uid uint32) need {
	return func(w *scenery) posix.Code { return yes(w.n.UID == uid, posix.EPERM) }
}

func stickyOwner(w *scenery) posix.Code {
	return yes(w.d.Mode&posix.Sticky == 0 || w.d.UID == w.cred.UID, posix.EPERM)
}

// A bound client may do with an inode exactly the operations that POSIX allows to its users. An operation
// that may come by a file that was opened before is judged for the machine, for any user that the client
// names.
func TestInodesAreBound(t *testing.T) {
	a := authorityOf(t, "1000-1001", "100,1000")
	for name, op := range inodes {
		t.Run(name, func(t *testing.T) {
			reached, f := map[posix.Code]int{}, newTree(t, 2)
			for _, v := range sceneries() {
				for _, caller := range callers {
					w := around(t, f, a, false, v.d, v.n)
					for _, x := range []string{"user.b", "trusted.b"} {
						f.must(1, meta.Command{Op: meta.OpSetXattr, Ino: w.n.Ino, Name: x, Data: []byte("b")})
					}
					w.n, w.cred = f.stat(1, w.n.Ino), caller.is
					if caller.stranger {
						w.cred = posix.Nobody() // as far as it matters at all
					}
					want := w.first(op.needs)
					if caller.stranger && op.personal {
						want = posix.EPERM
					}
					c := op.c
					if c.Ino, c.Cred = w.n.Ino, caller.says; op.dir {
						c.Ino = w.dir
					}
					c.Authority = a
					if code := meta.Refused(f.machines[1], &c); c.Op.IsQuery() && (code != posix.OK || want == posix.EACCES) {
						require.Equal(t, want, code, "known without the answer")
					}
					r := w.run(c)
					require.Equal(t, want, r.Code, "%v, directory %+v, file %+v", caller.says, v.d, v.n)
					if reached[want]++; want != posix.OK {
						require.Equal(t, w.n, f.stat(1, w.n.Ino))
					} else if now := f.stat(1, w.n.Ino); now.Mtime != w.n.Mtime && now.Size != w.n.Size {
						require.Zero(t, now.Mode&posix.SetUID, "what was written to it is not its owner's word")
					}
				}
			}
			require.Equal(t, !refused[name], reached[posix.OK] > 0, "%v", reached)
		})
	}
}

// Beside inodes and names there is nothing for a bound client.
func TestWhatIsNotForClients(t *testing.T) {
	f := newFS(t)
	dir := f.mkdir(posix.Root, "dir")
	a := authorityOf(t, "1-4294967295", "0-4294967295")
	for _, c := range []meta.Command{
		{Op: meta.OpMove, Child: dir, Target: 1}, {Op: meta.OpNumbers, Length: 1}, {Op: meta.OpCollected}, {Op: meta.OpGone, Child: dir},
		{Op: meta.OpReleased, Child: dir}, {Op: meta.OpMake, Child: dir}, {Op: meta.OpGranted, Child: dir}, {Op: meta.OpDropped},
		{Op: meta.OpRules}, {Op: meta.OpScan, Length: 9}, {Op: meta.OpQueue, Length: 9}, {Op: meta.OpGarbage},
		{Op: meta.OpCarry, Ino: dir, Length: 9},
	} {
		c.Authority = a
		f.fails(posix.EPERM, c)
	}
}

// A bound client can list, stop and resume the tasks of its users' directories only, and cannot report their
// progress.
func TestTasksAreBound(t *testing.T) {
	f := newFS(t)
	mine, other := f.mkdir(posix.Root, "mine"), f.mkdir(posix.Root, "other")
	f.must(on(mine, set(meta.SetUID, posix.Attr{UID: 1000})))
	for _, dir := range []posix.Ino{mine, other} {
		f.must(meta.Command{Op: meta.OpPlace, Ino: dir, Data: (&meta.Rule{Spread: []uint16{1}}).Append(nil), Target: 1, Flags: meta.PlaceMove})
	}
	a := authorityOf(t, "1000", "1000")
	tasks := func() []meta.Task {
		rows, err := meta.DecodeTasks(f.do(meta.Command{Op: meta.OpTasks, Length: 1, Authority: a}).Data)
		require.NoError(t, err)
		return rows
	}
	require.Equal(t, []meta.Task{{Dir: mine, Target: 1}}, tasks())
	tell := func(dir posix.Ino, flags uint32, moved uint64) posix.Code {
		return f.do(meta.Command{Op: meta.OpTask, Ino: dir, Target: 1, Flags: flags, Length: moved, Authority: a}).Code
	}
	require.Equal(t, posix.OK, tell(mine, meta.TaskPause, 0))
	require.True(t, tasks()[0].Paused)
	require.Equal(t, posix.OK, tell(mine, meta.TaskResume, 0))
	for _, code := range []posix.Code{tell(other, meta.TaskPause, 0), tell(mine, meta.TaskDone, 0), tell(mine, 0, 7), tell(mine, meta.TaskPause, 7)} {
		require.Equal(t, posix.EPERM, code)
	}
	f.fails(posix.EPERM, meta.Command{Op: meta.OpPlace, Ino: other, Cred: posix.Cred{UID: 1000, GID: 1000}, Authority: a})
}

// A set-group-id bit is for groups in which the user that sets it may be.
func TestSetGroupID(t *testing.T) {
	f := newFS(t)
	a, cred := authorityOf(t, "1000", "100"), posix.Cred{UID: 1000, GID: 100}
	for gid, keeps := range map[uint32]bool{100: true, 300: false} {
		dir := f.mkdir(posix.Root, string(rune('a'+gid%7)))
		f.must(meta.Command{Op: meta.OpSetAttr, Ino: dir, Set: meta.SetGID | meta.SetMode, Attr: posix.Attr{GID: gid, Mode: posix.SetGID | 0o777}})
		made := f.must(meta.Command{Op: meta.OpMknod, Ino: dir, Name: "f", Mode: posix.SetGID | 0o755, Cred: cred, Authority: a})
		require.Equal(t, gid, made.GID, "of the directory")
		require.Equal(t, keeps, made.Mode&posix.SetGID != 0)
		chmod := on(made.Ino, set(meta.SetMode, posix.Attr{Mode: posix.SetGID | posix.SetUID | 0o755}))
		chmod.Cred, chmod.Authority = cred, a
		now := f.must(chmod)
		require.Equal(t, keeps, now.Mode&posix.SetGID != 0)
		require.NotZero(t, now.Mode&posix.SetUID)
		sub := f.must(meta.Command{Op: meta.OpMknod, Ino: dir, Name: "sub", Mode: posix.TypeDir | 0o755, Cred: cred, Authority: a})
		require.NotZero(t, sub.Mode&posix.SetGID, "directories below keep it")
	}
}

// Only xattrs of users are shown.
func TestListXattrIsBound(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0)
	for _, name := range []string{"security.a", "trusted.b", "user.c"} {
		f.must(meta.Command{Op: meta.OpSetXattr, Ino: ino, Name: name})
	}
	list := meta.Command{Op: meta.OpListXattr, Ino: ino}
	require.Equal(t, "security.a\x00trusted.b\x00user.c\x00", string(f.do(list).Data))
	list.Authority = authorityOf(t, "1000", "1000")
	require.Equal(t, "user.c\x00", string(f.do(list).Data))
}

// A rule of a directory of others is refused before anything else, in one partition too.
func TestRefusedPlace(t *testing.T) {
	f := newTree(t, 1)
	dir := f.make(0, root(0), "d", dirMode)
	c := meta.Command{Op: meta.OpPlace, Ino: dir, Cred: posix.Cred{UID: 1000, GID: 1000}, Authority: authorityOf(t, "1000", "1000")}
	require.Equal(t, posix.EPERM, meta.Refused(f.machines[0], &c))
	f.must(0, on(dir, set(meta.SetUID, posix.Attr{UID: 1000})))
	require.Equal(t, posix.OK, meta.Refused(f.machines[0], &c))
}
