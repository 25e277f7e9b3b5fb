package replica

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// onDisk returns a fixture with its store on disk.
func onDisk(t *testing.T) (f *fixture, dir string) {
	dir = t.TempDir()
	keys, err := kv.Open(dir, kv.Options{})
	require.NoError(t, err)
	f = &fixture{t: t, core: &orderer{}, between: &orderer{}, keys: keys}
	f.restart()
	t.Cleanup(func() { require.NoError(t, f.keys.Close()) })
	return f, dir
}

// crash ends the process and starts it again. It loses the writes that are not committed.
func (f *fixture) crash(dir string) {
	var err error
	require.NoError(f.t, f.keys.Close())
	f.keys, err = kv.Open(dir, kv.Options{})
	require.NoError(f.t, err)
	f.restart()
}

// last returns the last delivery that the store has.
func (f *fixture) last() multicast.Timestamp {
	own, _, err := Positions(f.keys)
	require.NoError(f.t, err)
	return own.Final
}

// TestTurnsShareACommit: the store lags behind the executed deliveries, by whole deliveries. After a crash
// the orders deliver the lost ones again.
func TestTurnsShareACommit(t *testing.T) {
	f, dir := onDisk(t)
	f.open(7)
	var all []multicast.Delivery
	for i := range uint64(3) {
		f.hold = true
		c := mknod(fmt.Sprint(i))
		f.step(ask.Request{Kind: ask.Update, Session: 7, Seq: 1 + i, Done: i, Command: c.Append(nil)})
		all, f.hold = append(all, f.kept...), false
		f.step()
	}
	require.EqualValues(t, 4, f.last())
	require.NotZero(t, f.keys.Pending())
	require.Zero(t, f.progress.covered.Final, "the others must keep the entries")
	want := contentsOf(f)

	f.crash(dir)
	require.Zero(t, f.last())
	f.core.last = 0
	f.open(7)
	f.kept = all
	f.step()
	require.Equal(t, want, contentsOf(f))
}

// contentsOf returns the names in the root, and the position of the store.
func contentsOf(f *fixture) (all []string) {
	for i := range 4 {
		all = append(all, fmt.Sprint(f.code(lookup(posix.Root, fmt.Sprint(i)))))
	}
	return append(all, fmt.Sprint(f.last(), f.count()))
}

// TestAFailedEntryIsNotCommitted: neither a later sync nor the end of the process stores a part of an entry.
func TestAFailedEntryIsNotCommitted(t *testing.T) {
	f, dir := onDisk(t)
	f.open(7)
	bad := multicast.Delivery{Final: f.core.last + 2, Message: multicast.Message{
		ID: multicast.MessageID{Sender: 2, Seq: 1}, Dest: []multicast.GroupID{0}, Payload: payload(entryRequest, []byte{9}),
	}}
	f.hold = true
	c := mknod("a")
	f.step(ask.Request{Kind: ask.Update, Session: 7, Seq: 1, Command: c.Append(nil)})
	_, err := f.Apply(&turn.Output{Output: multicast.Output{Deliveries: append(f.kept, bad)}})
	require.ErrorIs(t, err, order.ErrVersion)
	f.crash(dir)
	require.Zero(t, f.last())
}

// TestCommits: a commit follows some bytes, and a sync some time, after which the others need not keep the
// entries.
func TestCommits(t *testing.T) {
	f, dir := onDisk(t)
	f.open(7)
	for seq := uint64(1); f.last() < 3 || f.keys.Pending() > 0; seq++ {
		require.Less(t, f.keys.Pending(), commitBytes)
		require.Less(t, seq, uint64(commitBytes/500))
		_, made := f.do(7, seq, mknod(fmt.Sprint(seq, strings.Repeat("n", 200))))
		require.Equal(t, posix.OK, made.Code)
	}
	committed := f.last()
	require.Zero(t, f.progress.covered.Final)
	f.crash(dir)
	require.Equal(t, committed, f.last())

	f.do(7, 1<<20, mknod("late"))
	require.Less(t, f.progress.covered.Final, f.last())
	f.mono += syncAfter
	f.step()
	require.Zero(t, f.keys.Pending())
	require.Equal(t, f.last(), f.progress.covered.Final)
}
