package cross

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Values of every shape, with all fields set.
var (
	someID      = multicast.MessageID{Sender: 300, Seq: 1 << 33}
	somePlace   = multicast.Position{Final: 5, ID: someID}
	someVector  = ask.Vector{{Count: 9, Known: 9, Undecided: []uint64{4}}, {}, {Count: 6, Open: []uint64{3}}}
	someBallot  = ballot{kind: approval, place: 4, vector: someVector, vote: []byte("v")}
	someParties = []uint16{0, 2}
	someName    = name{id: someID, at: somePlace, parties: someParties, update: session.Update{Session: 7, Seq: 3}, from: 2}
	someOutcome = outcome{id: someID, commit: true, votes: [][]byte{[]byte("v"), []byte("w")}, vector: someVector}
	somePosts   = posts{from: 2, first: 8, vector: someVector, commands: [][]byte{[]byte("c"), []byte("d")}}
	someConfirm = confirmation{id: someID, from: 2, entry: someVector[2]}
)

const (
	idBytes     = "ac028080808020"
	vectorBytes = "03" + "09040104" + "0000" + "06090103" + "06"
)

func roundTrip[T any](t *testing.T, want T, encoded string, b []byte, read func(*varint.Reader) T) {
	t.Helper()
	require.Equal(t, encoded, hex.EncodeToString(b), "the bytes are those of logs, and of replicas of other versions")
	r := varint.NewReader(b)
	require.Equal(t, want, read(r))
	require.NoError(t, r.Done())
	for n := range b {
		r = varint.NewReader(b[:n])
		read(r)
		require.Error(t, r.Done(), "cut after %d of %x", n, b)
	}
}

func TestRoundTrips(t *testing.T) {
	age := Age{Time: 1, ID: someID}
	roundTrip(t, age, "02"+idBytes, appendAge(nil, age), readAge)
	roundTrip(t, ballot{}, "00", appendBallot(nil, ballot{}), readBallot)
	roundTrip(t, ballot{kind: refusal}, "02", appendBallot(nil, ballot{kind: refusal}), readBallot)
	roundTrip(t, someBallot, "01"+"04"+vectorBytes+"0176", appendBallot(nil, someBallot), readBallot)
	roundTrip(t, someName, "05"+idBytes+"02"+"020002"+"0703", appendName(nil, someName), readName)
	roundTrip(t, someOutcome, idBytes+"01"+"0201760177"+vectorBytes, someOutcome.encode(nil), readOutcome)
	roundTrip(t, outcome{id: someID, vector: someVector}, idBytes+"00"+"00"+vectorBytes,
		(&outcome{id: someID, vector: someVector}).encode(nil), readOutcome)
	roundTrip(t, someConfirm, idBytes+"02"+"06090103"+"06", appendConfirmation(nil, someConfirm), readConfirmation)
	gone := session.Name{Session: 7, Seq: 300, Client: "east"}
	roundTrip(t, gone, "07ac02"+"0465617374", appendAbandoned(nil, gone), readAbandoned)
	roundTrip(t, somePosts, "0208"+vectorBytes+"0201630164", somePosts.encode(nil), readPosts)
	roundTrip(t, receipt{2, 300}, "02ac02", appendReceipt(nil, receipt{2, 300}), readReceipt)
	x := &command{id: someID, parties: someParties, confirmed: map[uint16]ask.Seen{2: someVector[2]}}
	roundTrip(t, forgotten{id: someID, entries: []partySeen{{2, someVector[2]}}}, idBytes+"01"+"02"+"06090103"+"06",
		appendForgotten(nil, x), readForgotten)
}

func TestEntriesRoundTrip(t *testing.T) {
	d := decision{id: someID, ballots: []ballot{{}, someBallot}}
	require.Equal(t, idBytes+"02"+"00"+"01"+"04"+vectorBytes+"0176", hex.EncodeToString(d.encode()))
	gotDecision, err := readDecision(d.encode())
	require.NoError(t, err)
	require.Equal(t, d, gotDecision)

	w := relay{previous: multicast.Position{Final: 1, ID: someID}, at: somePlace, parties: someParties, payload: []byte("p")}
	require.Equal(t, "01"+idBytes+"05"+idBytes+"020002"+"70", hex.EncodeToString(w.encode()))
	gotRelay, err := readRelay(w.encode())
	require.NoError(t, err)
	require.Equal(t, w, gotRelay)

	client := &ask.Client{Name: "east", Authority: &posix.Authority{UIDs: []posix.IDs{{First: 5, Last: 5}}}}
	for want, p := range map[string]proposal{
		"02" + "000000" + "00" + "00" + "71":                                   {coordinator: 2, request: []byte("q")},
		"02" + "02" + idBytes + "03" + "01" + "0465617374" + "01050000" + "71": {coordinator: 2, age: Age{1, someID}, attempt: 3, client: client, request: []byte("q")},
	} {
		require.Equal(t, want, hex.EncodeToString(p.encode()))
		got, err := readProposal(p.encode())
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
}

// A command is stored with all its replicated state, in every phase.
func TestCommandsAreStored(t *testing.T) {
	n := newNode(t, 0)
	for p := waiting; p <= aborted; p++ {
		x := &command{
			id: someID, position: somePlace, number: uint64(p), parties: someParties, coordinator: 2, age: Age{1, someID},
			update: session.Update{Session: 7, Seq: 3, Done: 1}, phase: p, place: 4, marked: p%2 == 0,
		}
		if x.vote = appendBallot(nil, someBallot); p == committed {
			x.vote, x.votes = nil, someOutcome.votes
		}
		n.table.save(x)
		got, err := readCommand(x.number, n.keys.Get(commandKey(x.number)))
		require.NoError(t, err)
		require.Equal(t, x, got)
	}
	stored := n.keys.Get(commandKey(uint64(voted)))
	for i := range stored {
		_, err := readCommand(2, stored[:i])
		require.ErrorIs(t, err, varint.ErrMalformed)
	}
	for _, p := range []phase{0, aborted + 1} {
		n.table.save(&command{id: someID, number: 9, phase: p})
		_, err := readCommand(9, n.keys.Get(commandKey(9)))
		require.ErrorIs(t, err, varint.ErrMalformed)
	}
}

func TestMalformedKeysAreReported(t *testing.T) {
	for name, c := range map[string]struct{ key, value []byte }{
		"a short command key": {commandKey(1)[:8], nil},
		"a command":           {commandKey(1), []byte{1, 2, 3}},
		"positions":           {stateKey, []byte{1, 9}},
		"a vector":            {vectorKey, []byte{2, 1}},
	} {
		keys := kv.NewMemory()
		keys.Set(c.key, c.value)
		_, err := New(Config{Partitions: 3}, keys, nil, nil, nil)
		require.Error(t, err, name)
	}
	_, err := Relayed(kv.NewMemory())
	require.NoError(t, err)
}

// A restart brings back the replicated state, and nothing else.
func TestCommandsAreLoaded(t *testing.T) {
	n, _ := undecided(t)
	n.Save()
	before := n.Commands
	n.load(0)
	require.Len(t, n.list, len(before.list))
	require.Equal(t, before.Vector(), n.Vector())
	require.Equal(t, before.Relayed(), n.Relayed())
	require.Equal(t, before.number, n.number)
	require.Equal(t, before.Barrier(), n.Barrier())
	for i, x := range n.list {
		y := before.list[i]
		require.Same(t, x, n.byID[x.id])
		require.Equal(t, []any{y.id, y.position, y.number, y.parties, y.coordinator, y.age, y.update, y.phase, y.place, y.vote, y.marked, y.votes},
			[]any{x.id, x.position, x.number, x.parties, x.coordinator, x.age, x.update, x.phase, x.place, x.vote, x.marked, x.votes})
		require.Nil(t, x.request)
	}
}

func TestAges(t *testing.T) {
	id := func(sender multicast.ProcessID, seq uint64) multicast.MessageID {
		return multicast.MessageID{Sender: sender, Seq: seq}
	}
	ages := []Age{{1, id(9, 9)}, {2, id(1, 5)}, {2, id(1, 6)}, {2, id(2, 1)}, {3, id(1, 1)}}
	for i, a := range ages {
		for j, b := range ages {
			require.Equal(t, i < j, a.compare(b) < 0)
		}
	}
}
