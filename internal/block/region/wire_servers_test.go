package region

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

var someMembers = Members{Version: 3, Servers: []Server{{ID: 1, Datacenter: "a"}, {ID: 7, Datacenter: "b", Leaving: true}, {ID: 300}}}

var someScope = scope{stamp: stamp{3, 99}, asker: 7, down: []multicast.ProcessID{1, 300}}

func TestRegionRequestRoundTrip(t *testing.T) {
	for name, c := range map[string]struct {
		encoded []byte
		want    request
	}{
		"ping":    {encodePing(stamp{3, 1 << 63}), request{op: opPing, stamp: stamp{3, 1 << 63}}},
		"members": {encodeSetMembers(&someMembers), request{op: opSetMembers, members: someMembers}},
		"digest":  {encodeDigest(&someScope, someID), request{op: opDigest, scope: someScope, from: someID}},
		"scope":   {encodeScope(&someScope, someID, block.LastID), request{op: opScope, scope: someScope, from: someID, to: block.LastID}},
		"have":    {encodeHave(stamp{1, 2}, true, []block.ID{someID}), request{op: opHave, stamp: stamp{1, 2}, read: true, ids: []block.ID{someID}}},
	} {
		got, err := decodeRequest(c.encoded)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		for cut := range len(c.encoded) {
			_, err := decodeRequest(c.encoded[:cut])
			require.Error(t, err, "%s cut to %d bytes", name, cut)
		}
	}
	for name, b := range map[string][]byte{
		"no ids":       encodeHave(stamp{1, 2}, true, nil),
		"too many ids": encodeHave(stamp{1, 2}, true, make([]block.ID, maxHave+1)),
		"nobody stays": encodeSetMembers(&Members{Version: 1, Servers: []Server{{ID: 1, Leaving: true}}}),
		"no version":   encodeSetMembers(&Members{Servers: []Server{{ID: 1}}}),
		"twice":        encodeSetMembers(&Members{Version: 1, Servers: []Server{{ID: 1}, {ID: 1}}}),
		"long name":    encodeSetMembers(&Members{Version: 1, Servers: []Server{{ID: 1, Datacenter: strings.Repeat("x", maxDatacenter+1)}}}),
		"too many":     encodeSetMembers(&Members{Version: 1, Servers: make([]Server, maxServers+1)}),
	} {
		_, err := decodeRequest(b)
		require.Error(t, err, name)
	}
}

func TestRegionReplyRoundTrip(t *testing.T) {
	s, err := decodePing(replyPing(stamp{3, 4}))
	require.NoError(t, err)
	require.Equal(t, stamp{3, 4}, s)

	m, err := decodeMembers(replyMembers(&someMembers))
	require.NoError(t, err)
	require.Equal(t, someMembers, m)

	d, err := decodeDigest(someID, replyDigest(digest{to: block.LastID, count: 3, sum: 1 << 63}))
	require.NoError(t, err)
	require.Equal(t, digest{to: block.LastID, count: 3, sum: 1 << 63}, d)
	_, err = decodeDigest(block.LastID, replyDigest(digest{to: someID}))
	require.Error(t, err, "it ends before it begins: who asks would go back")

	for _, have := range [][]bool{{true}, {false, true, false, false, false, false, false, false, true}} {
		got, err := decodeHave(len(have)+1, replyHave(have))
		require.NoError(t, err)
		require.Equal(t, have, got)
		_, err = decodeHave(len(have)-1, replyHave(have))
		require.Error(t, err, "more than was asked")
	}
	_, err = decodeHave(3, replyHave(nil))
	require.Error(t, err, "who asks would ask for ever")

	status := Status{Members: someMembers, Down: []multicast.ProcessID{3}, Drained: true}
	status.Repair.Last.FinishedAt = time.Unix(1, 0).UTC()
	status.Scrub.Found = 7
	reply, err := replyStatus(&status)
	require.NoError(t, err)
	got, err := decodeStatus(reply)
	require.NoError(t, err)
	require.Equal(t, status, got)
	_, err = decodeStatus(make([]byte, maxStatus+1))
	require.Error(t, err)
}

// Different members have different stamps, which order them. The order of the servers does not matter.
func TestStampsTellMembersApart(t *testing.T) {
	other := Members{Version: 3, Servers: []Server{someMembers.Servers[2], someMembers.Servers[0], someMembers.Servers[1]}}
	require.Equal(t, someMembers.stamp(), other.stamp())
	for name, change := range map[string]func(*Members){
		"leaving":    func(m *Members) { m.Servers[0].Leaving = true },
		"datacenter": func(m *Members) { m.Servers[0].Datacenter = "c" },
		"id":         func(m *Members) { m.Servers[0].ID = 9 },
		"less":       func(m *Members) { m.Servers = m.Servers[1:] },
	} {
		changed := Members{Version: 3, Servers: append([]Server(nil), someMembers.Servers...)}
		change(&changed)
		require.NotEqual(t, changed.Newer(&someMembers), someMembers.Newer(&changed), name)
		changed.Version++
		require.True(t, changed.Newer(&someMembers), name)
		require.False(t, someMembers.Newer(&changed), name)
	}
}

// TestDigestTellsSetsApart: sets that differ in any id have different sums, also of ids that differ in a bit.
func TestDigestTellsSetsApart(t *testing.T) {
	seen := map[uint64]bool{}
	for bit := range 128 {
		id := someID
		id[bit/8] ^= 1 << (bit % 8)
		require.False(t, seen[hash(id)])
		seen[hash(id)] = true
	}
	var a, b, c digest
	for i := range uint64(1000) {
		a.add(block.ID{15: byte(i), 14: byte(i >> 8)})
		j := 999 - i
		b.add(block.ID{15: byte(j), 14: byte(j >> 8)})
		if i == 500 {
			j = 2000
		}
		c.add(block.ID{15: byte(j), 14: byte(j >> 8)})
	}
	require.Equal(t, a, b)
	require.Equal(t, a.count, c.count)
	require.NotEqual(t, a.sum, c.sum)
}

func FuzzRegionRequest(f *testing.F) {
	f.Add(encodePing(stamp{1, 2}))
	f.Add(encodeSetMembers(&someMembers))
	f.Add(encodeDigest(&someScope, someID))
	f.Add(encodeScope(&someScope, someID, block.LastID))
	f.Add(encodeHave(stamp{1, 2}, true, []block.ID{someID}))
	f.Add([]byte{byte(opStatus)})
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := decodeRequest(b)
		if err != nil {
			return
		}
		var again []byte
		switch q.op {
		case opPing:
			again = encodePing(q.stamp)
		case opSetMembers:
			require.NoError(t, q.members.Validate())
			again = encodeSetMembers(&q.members)
		case opDigest:
			again = encodeDigest(&q.scope, q.from)
		case opScope:
			again = encodeScope(&q.scope, q.from, q.to)
		case opHave:
			require.LessOrEqual(t, len(q.ids), maxHave)
			again = encodeHave(q.stamp, q.read, q.ids)
		default:
			return
		}
		same, err := decodeRequest(again)
		require.NoError(t, err)
		require.Equal(t, q, same)
	})
}

func FuzzRegionReply(f *testing.F) {
	f.Add(replyPing(stamp{1, 2}))
	f.Add(replyMembers(&someMembers))
	f.Add(replyDigest(digest{to: block.LastID, count: 3, sum: 4}))
	f.Add(replyHave([]bool{true, false, true}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if replyErr(b) != nil {
			return
		}
		if m, err := decodeMembers(b); err == nil {
			require.NoError(t, m.Validate())
		}
		if d, err := decodeDigest(someID, b); err == nil {
			require.GreaterOrEqual(t, string(d.to[:]), string(someID[:]))
		}
		if have, err := decodeHave(10, b); err == nil {
			require.True(t, len(have) > 0 && len(have) <= 10)
		}
		_, _ = decodePing(b)
		_, _ = decodeStatus(b)
	})
}
