package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// output steps a request and returns the output, without applying its deliveries.
func (f *fixture) output(requests ...ask.Request) (out turn.Output) {
	in := turn.Input{Input: multicast.Input{Now: multicast.Instant{Mono: f.mono, Wall: 1e18}}}
	for _, q := range requests {
		f.token++
		in.Requests = append(in.Requests, turn.Call{Token: f.token, Data: q.Append(nil), From: f.from})
	}
	f.Step(&in, &out)
	return out
}

// A request for the disk is answered behind the sync of a step that it asks for, and only when the replica
// has executed all entries that its client has seen.
func TestPersistAsksForASync(t *testing.T) {
	f := newFixture(t)
	f.open(7)
	_, made := f.do(7, 1, mknod("a"))
	out := f.output()
	require.False(t, out.Sync)
	own := f.Vector().Of(0)
	out = f.output(ask.Request{Kind: ask.Persist, Claim: own.Claim()})
	require.True(t, out.Sync)
	require.Empty(t, out.Replies)
	require.Len(t, out.Persisted, 1)
	require.Equal(t, f.token, out.Persisted[0].Token)
	p, err := ask.DecodeReply(out.Persisted[0].Data)
	require.NoError(t, err)
	require.Equal(t, ask.Answered, p.Status)
	require.True(t, p.Vector.Of(0).Covers(own))
	out = f.output()
	require.False(t, out.Sync, "once")

	ahead := ask.Seen{History: own.History, Count: own.Count + 1, Known: own.Count + 1}
	out = f.output(ask.Request{Kind: ask.Persist, Claim: ahead.Claim()})
	waiting := f.token
	require.False(t, out.Sync, "it does not have that yet")
	require.Empty(t, append(out.Persisted, out.Replies...))
	_, other := f.do(7, 2, meta.Command{Op: meta.OpUnlink, Ino: 1, Name: "a"})
	require.Equal(t, made.Code, other.Code)
	require.NotZero(t, f.Wake(), "the sync is in the next step")
	out = f.output()
	require.True(t, out.Sync)
	require.Len(t, out.Persisted, 1)
	require.Equal(t, waiting, out.Persisted[0].Token)
}

// Entries that the partition has lost for ever are Unseen: fsync fails then.
func TestPersistOfWhatIsLost(t *testing.T) {
	f := newFixture(t)
	f.open(7)
	own := f.Vector().Of(0)
	lost := ask.Seen{History: own.History, Count: own.Count + 100, Known: own.Count + 100}
	require.Empty(t, f.step(ask.Request{Kind: ask.Persist, Claim: lost.Claim()}))
	waiting := f.token
	f.mono += 2 * ask.DoubtAfter
	replies := f.step()
	require.Equal(t, ask.Unseen, replies[waiting].Status)
}

// A batch with the flag OnDisk is ordered as a durable message, and the answer of its execution has its
// place. The recorded answer to a repeated batch has no place, and so has the answer to a batch without the
// flag.
func TestABatchOnDisk(t *testing.T) {
	f := newFixture(t)
	f.open(7)
	batch := func(flags uint32) meta.Command {
		x := delegation.Batch{Log: 1, First: 1}
		return meta.Command{Op: meta.OpBatch, Flags: flags, Data: x.Append(nil)}
	}
	for i, flags := range []uint32{meta.OnDisk, 0} {
		c := batch(flags)
		q := ask.Request{Kind: ask.Update, Session: 7, Seq: uint64(i + 1), Done: uint64(i), Command: c.Append(nil)}
		f.hold = true
		require.Empty(t, f.step(q))
		require.Len(t, f.kept, 1)
		require.Equal(t, flags != 0, f.kept[0].Durable)
		f.hold = false
		place := placeOnDisk(t, f.step()[f.token])
		if flags != 0 {
			require.Equal(t, f.count(), place)
		} else {
			require.Zero(t, place)
		}
		require.Zero(t, placeOnDisk(t, f.one(q)), "it is repeated")
	}
}

// A write with the flag OnDisk is ordered as a durable message, too, and its answer has its place. The flag
// has no effect on the answers to other updates.
func TestAWriteOnDisk(t *testing.T) {
	f := newFixture(t)
	f.open(7)
	_, made := f.do(7, 1, mknod("file"))
	file := made.Attr.Ino
	for i, c := range []meta.Command{
		{Op: meta.OpWrite, Ino: file, Data: []byte("a"), Length: 1, Flags: meta.OnDisk},
		{Op: meta.OpWrite, Ino: file, Data: []byte("a"), Length: 1},
		{Op: meta.OpSetAttr, Ino: file, Set: meta.SetMtimeNow, Flags: meta.OnDisk},
	} {
		q := ask.Request{Kind: ask.Update, Session: 7, Seq: uint64(i + 2), Done: uint64(i + 1), Command: c.Append(nil)}
		f.hold = true
		require.Empty(t, f.step(q))
		require.Len(t, f.kept, 1)
		require.Equal(t, i == 0, f.kept[0].Durable)
		f.hold = false
		first := f.step()[f.token]
		for repeated, reply := range []ask.Reply{first, f.one(q)} {
			result, err := meta.DecodeResult(reply.Result)
			require.NoError(t, err)
			require.Equal(t, posix.OK, result.Code)
			if i == 0 && repeated == 0 {
				require.Equal(t, varint.AppendUint(nil, f.count()), result.Data)
			} else {
				require.Empty(t, result.Data)
			}
		}
	}
}

// placeOnDisk returns the place in the answer to a batch.
func placeOnDisk(t *testing.T, reply ask.Reply) uint64 {
	t.Helper()
	require.Equal(t, ask.Answered, reply.Status)
	result, err := meta.DecodeResult(reply.Result)
	require.NoError(t, err)
	done, err := delegation.DecodeDone(result.Data)
	require.NoError(t, err)
	require.EqualValues(t, 1, done.Next)
	return done.OnDisk
}
