package paxos

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

func propose(l *Log, commands ...byte) {
	l.Propose(commands)
}

// learned gives all that a log learns now, instances apart.
func learned(l *Log) (all []string) {
	for b := l.Next(); b != nil; b = l.Next() {
		all = append(all, string(b))
	}
	return all
}

// The leader and two other processes are enough, instances are pipelined, and messages that are proposed
// together are one instance.
func TestLogOfFive(t *testing.T) {
	leader, follower, late := NewLog(0, 5), NewLog(1, 5), NewLog(2, 5)
	instance, _ := leader.Seal()
	require.Zero(t, instance, "nothing was proposed")
	propose(leader, 'a')
	propose(leader, 'b')
	for i, want := range []string{"ab", "c"} {
		instance, batch := leader.Seal()
		require.EqualValues(t, i+1, instance)
		require.Equal(t, want, string(batch))
		require.True(t, follower.Accept(instance, []byte(want)))
		propose(leader, 'c')
	}
	require.EqualValues(t, 2, follower.Tell(), "one word for both")
	require.Zero(t, follower.Tell())
	require.True(t, leader.Accepted(1, 2))
	require.Empty(t, learned(leader), "two of five")
	require.Empty(t, learned(follower))
	require.True(t, leader.Accepted(4, 1))
	require.True(t, follower.Accepted(4, 1))
	require.Equal(t, []string{"ab"}, learned(leader))
	require.Equal(t, []string{"ab"}, learned(follower))

	require.True(t, late.Accepted(1, 2))
	require.True(t, late.Accepted(3, 2))
	require.True(t, late.Accepted(4, 2))
	require.Empty(t, learned(late), "it does not know what was decided")
	require.True(t, late.Accept(1, []byte("ab")))
	require.Equal(t, []string{"ab"}, learned(late))
	require.True(t, late.Accept(2, []byte("c")))
	require.Equal(t, []string{"c"}, learned(late))
}

// An ACCEPT counts as the vote of its leader, so a follower learns the decision at once.
func TestLogOfThree(t *testing.T) {
	follower := NewLog(2, 3)
	require.True(t, follower.Accept(1, []byte("a")))
	require.Equal(t, []string{"a"}, learned(follower))
}

func TestLogOfOne(t *testing.T) {
	l := NewLog(0, 1)
	for range 1000 {
		propose(l, 'a')
		l.Seal()
		require.Equal(t, []string{"a"}, learned(l))
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		l.Propose([]byte{'a'})
		l.Seal()
		for l.Next() != nil {
		}
	}))
}

func TestLogRefusesWhatCannotBe(t *testing.T) {
	leader, follower := NewLog(0, 3), NewLog(1, 3)
	require.False(t, leader.Accept(1, []byte("a")), "nobody else leads")
	require.False(t, leader.Accepted(1, 1), "not proposed")
	require.False(t, leader.Accepted(0, 0))
	require.False(t, follower.Accept(2, []byte("a")), "not the next")
	require.False(t, follower.Accept(1, nil), "empty")
	require.False(t, follower.Accepted(0, 1), "a leader says ACCEPT")
	require.True(t, follower.Accepted(2, 3))
	require.False(t, follower.Accepted(2, 2), "back")
}

func TestConfig(t *testing.T) {
	group := func(id multicast.GroupID, members ...multicast.ProcessID) multicast.Group {
		return multicast.Group{ID: id, Members: members}
	}
	for want, groups := range map[string][]multicast.Group{
		"process 9 is in none":       {group(1, 1, 2, 3)},
		"group 1 has no members":     {group(1)},
		"or stands twice":            {group(1, 9), group(1, 2)},
		"process 9 of group 2 is 0 ": {group(1, 9), group(2, 9)},
		"process 0 of group 2 is 0 ": {group(1, 9), group(2, 0)},
		"there are 65":               make([]multicast.Group, 65),
	} {
		_, err := NewMember(Config{Self: 9, Groups: groups}, nil)
		require.ErrorContains(t, err, want)
	}
}

// samples are one packet of each kind.
func samples() []packet {
	id := multicast.MessageID{Sender: 7, Seq: 300}
	return []packet{
		{kind: kindStart, id: id, ts: 5, route: []byte{1, 2}, payload: []byte("content")},
		{kind: kindAccept, number: 9, payload: []byte{1, 2, 3}},
		{kind: kindAccepted, number: 1 << 40},
		{kind: kindDelivered, id: id, ts: 1},
		{kind: kindForget, id: id, ts: 2},
		{kind: Soft, id: id, ts: 3},
		{kind: Hard, id: id, ts: 1 << 61},
		{kind: Assign, id: id},
		{kind: SyncSoft, id: id, ts: 4},
		{kind: Final, id: id, ts: 4},
	}
}

func TestPackets(t *testing.T) {
	var frame []byte
	for _, p := range samples() {
		frame = p.append(frame)
	}
	r := varint.NewReader(frame)
	for _, want := range samples() {
		var p packet
		p.read(r)
		require.NoError(t, r.Err())
		require.Equal(t, want, p)
	}
	require.NoError(t, r.Done())
	for name, bad := range map[string][]byte{
		"unknown kind": {99}, "kind 0": {0}, "no timestamp": {byte(Hard), 1, 1, 0}, "cut": {byte(Hard), 1},
	} {
		var p packet
		r := varint.NewReader(bad)
		p.read(r)
		require.Error(t, r.Err(), name)
	}
}

func FuzzPacket(f *testing.F) {
	for _, p := range samples() {
		f.Add(p.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := varint.NewReader(b)
		var p, again packet
		if p.read(r); r.Err() != nil {
			return
		}
		r = varint.NewReader(p.append(nil))
		again.read(r)
		require.NoError(t, r.Done())
		require.Equal(t, p, again)
	})
}
