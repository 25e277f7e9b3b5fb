package meta_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// placeCommand gives dir a rule.
func placeCommand(dir posix.Ino, rule meta.Rule) meta.Command {
	return meta.Command{Op: meta.OpPlace, Ino: dir, Data: rule.Append(nil)}
}

func (f *fs) ruleOf(dir posix.Ino) meta.Rule {
	f.t.Helper()
	r := f.do(meta.Command{Op: meta.OpRule, Ino: dir})
	require.Equal(f.t, posix.OK, r.Code)
	rule, err := meta.DecodeRule(r.Data)
	require.NoError(f.t, err)
	return rule
}

func (f *fs) rules(after posix.Ino, limit uint64) []meta.Placement {
	f.t.Helper()
	r := f.do(meta.Command{Op: meta.OpRules, Ino: after, Length: limit})
	rows, err := meta.DecodePlacements(r.Data)
	require.NoError(f.t, err)
	require.EqualValues(f.t, len(rows), r.Number)
	return rows
}

func TestPlace(t *testing.T) {
	f := newFS(t)
	dir := f.mkdir(posix.Root, "dir")
	require.Equal(t, meta.Rule{}, f.ruleOf(dir), "at first")

	rule := meta.Rule{Spread: []uint16{1, 2}, Region: "eu-west-1"}
	c := placeCommand(dir, rule)
	c.Target = 2
	require.Equal(t, dir, f.must(c).Ino)
	require.Equal(t, rule, f.ruleOf(dir))
	require.Equal(t, []meta.Placement{{Dir: dir, Target: 2, Rule: rule}}, f.rules(0, 0))
	require.Empty(t, f.tasks(0, 0), "nobody asked to move what is there")
	require.Empty(t, meta.CheckAll([]meta.Keys{f.keys, partition(t, 1)}))

	f.must(placeCommand(dir, meta.Rule{}))
	require.Equal(t, meta.Rule{}, f.ruleOf(dir))
	require.Empty(t, f.rules(0, 0))
	f.must(placeCommand(dir, rule))
	f.must(meta.Command{Op: meta.OpPlace, Ino: dir}) // no data at all removes it, too
	require.Empty(t, f.rules(0, 0))
}

func TestPlaceRefuses(t *testing.T) {
	f := newFS(t)
	dir := f.mkdir(posix.Root, "dir")
	file := f.must(meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "file", Mode: 0o644}).Ino
	gone := f.mkdir(posix.Root, "gone")
	f.must(meta.Command{Op: meta.OpRmdir, Ino: posix.Root, Name: "gone"})
	many := make([]uint16, meta.MaxSpread+1)
	for i := range many {
		many[i] = uint16(i)
	}
	for _, bad := range []meta.Rule{
		{Spread: []uint16{1, 2, 1}},
		{Spread: many},
		{Region: strings.Repeat("r", meta.MaxRegion+1)},
		{Region: "two\nlines"},
		{Region: "\xff"},
	} {
		f.fails(posix.EINVAL, placeCommand(dir, bad))
	}
	f.fails(posix.EINVAL, meta.Command{Op: meta.OpPlace, Ino: dir, Data: []byte{7}})
	rule := meta.Rule{Region: "eu-west-1"}
	f.fails(posix.ENOTDIR, placeCommand(file, rule))
	f.fails(posix.ENOENT, placeCommand(gone, rule))
	f.fails(posix.ESTALE, placeCommand(99, rule))
	require.Empty(t, f.rules(0, 0))
	require.Equal(t, posix.ENOTDIR, f.do(meta.Command{Op: meta.OpRule, Ino: file}).Code)
	require.Equal(t, posix.ESTALE, f.do(meta.Command{Op: meta.OpRule, Ino: 99}).Code)

	rule.Spread = many[:meta.MaxSpread]
	f.must(placeCommand(dir, rule))
}

// Only partition 0 has the table: elsewhere a rule takes a command over two partitions.
func TestPlaceNeedsTheTable(t *testing.T) {
	keys := kv.NewMemory()
	m, err := meta.New(keys, meta.Config{Partition: 1})
	require.NoError(t, err)
	root := posix.MakeIno(1, 1)
	c := placeCommand(root, meta.Rule{Region: "eu-west-1"})
	r := m.Apply(&c, 1)
	require.Equal(t, meta.Result{Code: posix.EREMOTE, Number: 1, Attr: posix.Attr{Ino: root}}, r)
	require.Equal(t, meta.Result{Data: []byte{0}}, m.Query(&meta.Command{Op: meta.OpRules}))
}

func TestRulesInPages(t *testing.T) {
	f := newFS(t)
	var dirs []posix.Ino
	for i := range meta.MaxRows + 3 {
		dirs = append(dirs, f.mkdir(posix.Root, strings.Repeat("d", 1+i%200)+string(rune('A'+i/200))))
		f.must(placeCommand(dirs[i], meta.Rule{Region: "r"}))
	}
	require.Len(t, f.rules(0, 0), meta.MaxRows)
	require.Len(t, f.rules(0, 1<<20), meta.MaxRows)
	page := f.rules(dirs[0], 2)
	require.Len(t, page, 2)
	require.Equal(t, dirs[1], page[0].Dir)
	require.Equal(t, dirs[2], page[1].Dir)
	require.Len(t, f.rules(dirs[meta.MaxRows-1], 0), 3)
	require.Empty(t, f.rules(dirs[len(dirs)-1], 0))
	require.Empty(t, f.rules(^posix.Ino(0), 0))
}

// partition returns the store of one more partition at birth.
func partition(t *testing.T, number uint16) meta.Keys {
	keys := kv.NewMemory()
	_, err := meta.New(keys, meta.Config{Partition: number})
	require.NoError(t, err)
	return keys
}

func (f *fs) mkdir(parent posix.Ino, name string) posix.Ino {
	f.t.Helper()
	return f.must(meta.Command{Op: meta.OpMknod, Ino: parent, Name: name, Mode: posix.TypeDir | 0o755}).Ino
}
