package meta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// queue returns the entries of the queue of dropped blocks, and the usage of blocks.
func queue(t *testing.T, m *meta.Machine) ([]meta.Dropped, meta.BlockUsage) {
	t.Helper()
	usage, page, err := meta.DecodeQueue(m.Query(&meta.Command{Op: meta.OpQueue, Length: meta.MaxIDs, Time: 1 << 60}).Data)
	require.NoError(t, err)
	require.LessOrEqual(t, len(page), int(usage.Dropped))
	return page, usage
}

// dropped gives the blocks in the queue.
func (f *fs) dropped() (ids []posix.BlockID) {
	f.t.Helper()
	page, _ := queue(f.t, f.m)
	for _, d := range page {
		ids = append(ids, d.ID)
	}
	return ids
}

func ids(op meta.Op, blocks ...posix.BlockID) meta.Command {
	c := meta.Command{Op: op}
	for _, id := range blocks {
		c.Blocks = append(c.Blocks, meta.Block{ID: id})
	}
	return c
}

// A write names only new blocks, of the partition that executes it and of its own session.
func TestBlocksThatCannotBeWritten(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	f.must(meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{block(1, 100)}})
	before := f.stat(ino)
	f.horizon = 5
	for name, blocks := range map[string][]meta.Block{
		"held":                  {block(1, 100)},
		"twice":                 {block(7, 100), block(7, 100)},
		"of another partition":  {{ID: posix.MakeBlockID(1, 1, 7), Length: 100}},
		"of another session":    {{ID: posix.MakeBlockID(0, 2, 7), Length: 100}},
		"below the horizon":     {block(4, 100)},
		"the second of several": {block(8, 100), block(1, 100)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, meta.Result{Code: posix.EINVAL}, f.do(meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: blocks}))
			require.Equal(t, before, f.stat(ino))
		})
	}
	f.must(meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{block(5, 100)}})
	require.Equal(t, []posix.BlockID{block(1, 0).ID}, f.dropped())
	f.horizon = 0
	f.fails(posix.EINVAL, meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{block(1, 100)}}) // dropped blocks never come back
}

func TestQueueOfDroppedBlocks(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	for i := range uint64(4) {
		f.must(meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{block(i, 100+uint32(i))}})
	}
	want := []meta.Dropped{
		{Place: 1, ID: block(0, 0).ID, Time: 3, Length: 100},
		{Place: 2, ID: block(1, 0).ID, Time: 4, Length: 101},
		{Place: 3, ID: block(2, 0).ID, Time: 5, Length: 102},
	}
	got, usage := queue(t, f.m)
	require.Equal(t, want, got)
	require.Equal(t, meta.BlockUsage{Blocks: 1, Bytes: 103, Dropped: 3, DroppedBytes: 303}, usage)
	page := func(after, limit uint64, before posix.Time) []meta.Dropped {
		_, page, err := meta.DecodeQueue(f.m.Query(&meta.Command{Op: meta.OpQueue, Offset: after, Length: limit, Time: before}).Data)
		require.NoError(t, err)
		return page
	}
	require.Equal(t, want[:2], page(0, 2, 100))
	require.Equal(t, want[2:], page(2, 2, 100))
	require.Equal(t, want[:1], page(0, 9, 4), "only what was dropped before that")
	require.Empty(t, page(0, 9, 3))

	r := f.do(ids(meta.OpCollected, want[0].ID, want[2].ID, block(3, 0).ID, block(9, 0).ID))
	require.Equal(t, meta.Result{Number: 2}, r, "what is not in the queue is left alone")
	require.Equal(t, meta.Result{}, f.do(ids(meta.OpCollected, want[0].ID)), "again")
	got, usage = queue(t, f.m)
	require.Equal(t, want[1:2], got)
	require.Equal(t, meta.BlockUsage{Blocks: 1, Bytes: 103, Dropped: 1, DroppedBytes: 101}, usage)

	data := f.do(ids(meta.OpGarbage, want[0].ID, want[1].ID, block(3, 0).ID, block(9, 0).ID, posix.MakeBlockID(1, 1, 9))).Data
	garbage, err := meta.DecodeGarbage(data, 5)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, false, true, false}, garbage, "of others' blocks nothing is known here")
	_, err = meta.DecodeGarbage(data, 4)
	require.Error(t, err)
	_, err = meta.DecodeGarbage([]byte{2}, 1)
	require.Error(t, err)
	whole := f.m.Query(&meta.Command{Op: meta.OpQueue, Length: 9, Time: 100}).Data
	_, _, err = meta.DecodeQueue(whole[:len(whole)-1])
	require.Error(t, err)
}

// Clocks of proposers differ; the queue's times do not fall, so nothing in it waits for less than is asked.
func TestTimesInTheQueueDoNotFall(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	for i, at := range []posix.Time{10, 50, 20, 60} {
		k := block(uint64(i), 100)
		c := meta.Command{Op: meta.OpWrite, Ino: ino, Time: at, Blocks: []meta.Block{k}, Length: 100, Session: 1}
		require.Equal(t, posix.OK, f.m.Apply(&c, uint64(i)).Code)
	}
	f.must(meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "f"})
	f.m.Reap(ino, 55)
	got, _ := queue(t, f.m)
	var times []posix.Time
	for _, d := range got {
		times = append(times, d.Time)
	}
	require.Equal(t, []posix.Time{50, 50, 60, 60}, times)
}

// awayBlock returns a file with a block that was written in partition 1, and has moved to partition 0.
func awayBlock(t *testing.T) (f *tree, ino posix.Ino, id posix.BlockID) {
	f, id = newTree(t, 3), posix.MakeBlockID(1, 1, 1)
	ino = f.make(1, root(1), "f", 0o600)
	f.must(1, meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{{ID: id, Length: 9}}})
	f.mustCross(meta.Command{Op: meta.OpMove, Child: ino, Target: 0}, 0, 1)
	return f, ino, id
}

// known reports whether the home of a block has a record of it.
func (f *tree) known(id posix.BlockID) bool {
	return f.at(int(id.Partition()), ids(meta.OpGarbage, id)).Data[0] == 0
}

// The home of a block keeps the block as long as a file in any partition has it, and gets a post when no file
// has it any more.
func TestBlocksAwayFromHome(t *testing.T) {
	f, ino, id := awayBlock(t)
	require.True(t, f.known(id))
	_, usage := queue(t, f.machines[1])
	require.Equal(t, meta.BlockUsage{Blocks: 1, Bytes: 9}, usage, "it is counted at home")
	_, usage = queue(t, f.machines[0])
	require.Zero(t, usage)
	require.Equal(t, posix.EINVAL, f.at(1, meta.Command{Op: meta.OpWrite, Ino: f.make(1, root(1), "other", 0o600), Blocks: []meta.Block{{ID: id, Length: 9}}}).Code)

	f.mustCross(meta.Command{Op: meta.OpMove, Child: ino, Target: 2}, 0, 1, 2)
	f.mustCross(meta.Command{Op: meta.OpMove, Child: ino, Target: 1}, 1, 2)
	f.mustCross(meta.Command{Op: meta.OpMove, Child: ino, Target: 0}, 1, 0)
	require.True(t, f.known(id))
	f.must(0, meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: meta.SetSize, Attr: posix.Attr{Size: 5}})
	require.Empty(t, f.postsOf(0), "a part is left")
	f.must(0, meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: meta.SetSize})
	local, usage := queue(t, f.machines[0])
	require.Equal(t, []meta.Dropped{{Place: 1, ID: id, Time: local[0].Time}}, local, "there may be copies here")
	require.Equal(t, meta.BlockUsage{Dropped: 1}, usage)

	// The copies here are collected before home has heard.
	require.EqualValues(t, 1, f.at(0, ids(meta.OpCollected, id)).Number)
	require.EqualValues(t, 0, f.at(1, ids(meta.OpCollected, id)).Number)
	require.True(t, f.known(id))
	post := f.postsOf(0)
	require.Len(t, post, 1)
	f.mail()
	require.EqualValues(t, 1, f.at(1, ids(meta.OpCollected, id)).Number)
	require.False(t, f.known(id))
	f.machines[1].ExecutePosts(0, post[0].Number, []meta.Command{post[0].Command}, 5, 5) // again, late
	require.False(t, f.known(id))
}

// The home of a block learns that the block is dropped before it has decided the move of the block's file to
// another partition.
func TestAPostOvertakesADecision(t *testing.T) {
	f, id := newTree(t, 2), posix.MakeBlockID(1, 1, 1)
	ino := f.make(1, root(1), "f", 0o600)
	f.must(1, meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{{ID: id, Length: 9}}})
	f.must(1, meta.Command{Op: meta.OpFallocate, Ino: ino, Offset: 3, Length: 3, Flags: meta.FallocatePunch})
	move := f.begin(meta.Command{Op: meta.OpMove, Child: ino, Target: 0}, 0, 1).prepare(0, 1)
	require.Equal(t, posix.OK, f.machines[0].Decide(move.number, move.votes, 1).Code)
	f.must(0, meta.Command{Op: meta.OpWrite, Ino: ino, Data: []byte("123456789")})
	f.mail()
	require.True(t, f.known(id))
	require.Empty(t, meta.Check(f.keys[1]))
	f.restart(1)
	got, _ := queue(t, f.machines[1])
	require.Empty(t, got, "it is not to be collected yet")
	require.Equal(t, posix.OK, f.machines[1].Decide(move.number, move.votes, 1).Code)
	got, usage := queue(t, f.machines[1])
	require.Len(t, got, 1)
	require.Equal(t, meta.BlockUsage{Dropped: 1, DroppedBytes: 9}, usage)
}

// When a large file is removed in another partition than its home, posts inform the homes of all its blocks.
// There are as few posts as possible.
func TestDroppedBlocksTravelTogether(t *testing.T) {
	f := newTree(t, 3)
	ino := f.make(1, root(1), "f", 0o600)
	const count = meta.MaxIDs + 5
	for i := range uint64(count) {
		if i == 10 {
			f.mustCross(meta.Command{Op: meta.OpMove, Child: ino, Target: 2}, 1, 2)
		}
		at := 1
		if i >= 10 {
			at = 2
		}
		f.must(at, meta.Command{Op: meta.OpWrite, Ino: ino, Flags: meta.Append, Blocks: []meta.Block{{ID: posix.MakeBlockID(uint16(at), 1, i), Length: 1}}})
	}
	f.mustCross(meta.Command{Op: meta.OpMove, Child: ino, Target: 0}, 0, 1, 2)
	f.must(0, meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: meta.SetSize})
	require.Equal(t, []uint16{1, 2}, f.machines[0].Destinations())
	require.Len(t, f.posts(0, 1)[0].Command.Blocks, 10)
	require.Len(t, f.posts(0, 2)[0].Command.Blocks, count-10)
	f.mail()
	_, usage := queue(t, f.machines[2])
	require.EqualValues(t, count-10, usage.Dropped)
}
