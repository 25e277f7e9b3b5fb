package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// TestARefusalIsJudgedAtItsMoment: a rename over partitions of a file to the name of the directory above it.
// One party refused it in a state before another client removed the file.
func TestARefusalIsJudgedAtItsMoment(t *testing.T) {
	const dir, file = posix.Ino(2), posix.Ino(3)
	made := func(at int, c meta.Command, ino posix.Ino, links uint32) *change {
		attr := posix.Attr{Ino: ino, Mode: c.Mode, Nlink: links}
		return &change{command: c, at: at, result: meta.Result{Attr: attr}}
	}
	unlink := made(12, meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "f"}, file, 0)
	unlink.result.Attr.Mode = posix.TypeRegular | 0o644
	j := newTreeJudge(&tree{})
	for _, u := range []*change{
		made(1, meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "d", Mode: posix.TypeDir | 0o755}, dir, 2),
		made(2, meta.Command{Op: meta.OpMknod, Ino: dir, Name: "f", Mode: posix.TypeRegular | 0o644}, file, 1),
		unlink,
	} {
		require.NoError(t, j.model.execute(u))
		j.order = append(j.order, u)
	}
	for name, x := range map[string]struct {
		issued int
		dest   []uint16
		code   posix.Code
		right  bool
	}{
		"as it is now":              {issued: 13, dest: []uint16{0, 1}, code: posix.ENOENT, right: true},
		"before the file went":      {issued: 11, dest: []uint16{0, 1}, code: posix.EISDIR, right: true},
		"the other reason":          {issued: 11, dest: []uint16{0, 1}, code: posix.ENOTEMPTY, right: true},
		"no reason at all":          {issued: 11, dest: []uint16{0, 1}, code: posix.ENOTDIR},
		"before it was issued":      {issued: 13, dest: []uint16{0, 1}, code: posix.EISDIR},
		"one partition sees it all": {issued: 11, code: posix.EISDIR},
	} {
		t.Run(name, func(t *testing.T) {
			u := &change{
				command: meta.Command{Op: meta.OpRename, Ino: dir, Name: "f", NewParent: posix.Root, NewName: "d"},
				issued:  x.issued, dest: x.dest, result: meta.Result{Code: x.code},
			}
			require.Equal(t, x.right, j.refused(u) == nil)
		})
	}
}
