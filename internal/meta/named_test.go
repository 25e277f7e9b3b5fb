package meta

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

// The lists of inodes are part of the protocol between clients and replicas: these must stay as they are.
func TestNamedInodes(t *testing.T) {
	c := Command{
		Op: OpRename, Ino: 12, NewParent: posix.MakeIno(3, 1), Child: 14, NewChild: 15, Chain: []posix.Ino{16, 1, 17}, Back: []posix.Ino{18, 12},
	}
	require.Equal(t, []posix.Ino{12, 14, 15, 16, 17, 18, 12}, c.Named())
	for _, op := range []Op{OpStatFS, OpTasks} {
		require.Empty(t, (&Command{Op: op, Ino: 12}).Named(), "it says nothing of the inode")
	}
	for op := OpMknod; op < opQueryEnd; op++ {
		if (op.IsUpdate() || op.IsQuery()) && op != OpStatFS && op != OpTasks {
			require.Equal(t, []posix.Ino{12}, (&Command{Op: op, Ino: 12}).Named(), op)
		}
	}
	r := Result{Attr: posix.Attr{Ino: 12}, Entries: []Entry{{Attr: posix.Attr{Ino: 13}}, {Attr: posix.Attr{Ino: 1}}, {Attr: posix.Attr{Ino: 14}}}}
	require.Equal(t, []posix.Ino{13, 14}, NewInodes(OpReadDir, []posix.Ino{12}, &r))
	require.Equal(t, []posix.Ino{12, 13, 14}, NewInodes(OpReadDir, nil, &r))
	r.Code = posix.EREMOTE
	require.Empty(t, NewInodes(OpReadDir, nil, &r), "the client may not be allowed to know them")
	tasks := Result{Data: AppendTasks(nil, []Task{{Dir: 21}, {Dir: 22}})}
	require.Equal(t, []posix.Ino{21, 22}, NewInodes(OpTasks, nil, &tasks))
	require.Empty(t, NewInodes(OpReadlink, nil, &tasks))
}
