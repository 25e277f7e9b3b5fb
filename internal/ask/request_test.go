package ask

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

func TestRequestRoundTrip(t *testing.T) {
	for _, q := range []Request{
		{Kind: Query, Vector: counts(1, 0, 3), Command: []byte("c")},
		{Kind: Update, Session: 7, Seq: 5, Done: 3, Vector: counts(9), Command: []byte("c")},
		{Kind: Update, Session: 7, Seq: 5, Done: 3, Dest: []uint16{0, 2}, Fresh: true, Command: []byte("c")},
		{Kind: Update, Session: 7, Seq: 5, Done: 3, Vector: sample(), Patience: 1500 * time.Millisecond, Command: []byte("c")},
		{Kind: Query, Fresh: true, Vector: sample(), Command: []byte("c")},
		{Kind: AskStatus},
		{Kind: RenewSession, Session: 1<<48 - 1, Held: []posix.Ino{1, posix.MakeIno(3, 9)}, Horizon: 1 << 40},
	} {
		got, err := DecodeRequest(q.Append(nil))
		require.NoError(t, err)
		got.Merge()
		require.Equal(t, q, *got.Trusted())
	}
}

// A request carries the vectors that replicas have given to the client, each with its tag. Its vector is the
// merge of these. A claim is about the asked partition alone.
// Tickets are the last part of a message, so that versions before tickets refuse a request with tickets, and
// get replies without.
func TestTicketsOfMessages(t *testing.T) {
	q := Request{Kind: Query, Ticketed: true, Tickets: []posix.Ticket{{1}, {15: 2}}, Command: []byte("c")}
	plain := Request{Kind: Query, Command: []byte("c")}
	b := q.Append(nil)
	require.Equal(t, append(append(plain.Append(nil), ticketFormat, 1), append(make([]byte, 30), 2)...), b)
	got, err := DecodeRequest(b)
	require.NoError(t, err)
	require.Equal(t, q, got)
	require.Equal(t, plain, *got.Trusted())
	q.Tickets = nil
	got, err = DecodeRequest(q.Append(nil))
	require.NoError(t, err)
	require.True(t, got.Ticketed)
	for _, tail := range [][]byte{{0}, {2}, {ticketFormat, 1}, append([]byte{0}, make([]byte, 16)...), append([]byte{ticketFormat}, make([]byte, 17)...)} {
		_, err = DecodeRequest(append(plain.Append(nil), tail...))
		require.Error(t, err, tail)
	}
	p := Reply{Status: Answered, Vector: counts(1), Result: []byte("r"), Tickets: []posix.Ticket{{3}}}
	back, err := DecodeReply(p.Append(nil))
	require.NoError(t, err)
	require.Equal(t, p, back)
	_, err = DecodeReply(append(p.Append(nil), 1))
	require.Error(t, err)
}

func TestProofsOfARequest(t *testing.T) {
	q := Request{
		Kind: Query, Proofs: Proofs{{counts(1, 5), []byte("a")}, {counts(2, 0, 7), []byte("b")}}, Claim: Seen{Count: 9},
		Command: []byte("c"),
	}
	got, err := DecodeRequest(q.Append(nil))
	require.NoError(t, err)
	require.Equal(t, q.Proofs, got.Proofs)
	require.Empty(t, got.Vector, "they are not verified yet")
	got.Merge()
	require.Equal(t, counts(2, 5, 7), got.Vector)
	require.Equal(t, uint64(9), got.Reader(1).Count)
	require.Equal(t, uint64(5), got.Vector.Of(1).Count, "the claim is not proven")
	again, err := DecodeRequest(got.Trusted().Append(nil))
	require.NoError(t, err)
	again.Merge()
	require.Equal(t, got.Vector, again.Vector)
	require.Equal(t, got.Claim, again.Claim)
	many := Request{Kind: Query, Proofs: make(Proofs, MaxProofs+1)}
	_, err = DecodeRequest(many.Append(nil))
	require.Error(t, err)
	long := Request{Kind: Query, Proofs: Proofs{{Tag: make([]byte, maxProofBytes)}}}
	_, err = DecodeRequest(long.Append(nil))
	require.Error(t, err)
}

func TestRequestsThatAreRefused(t *testing.T) {
	for name, q := range map[string]Request{
		"kind":    {Kind: kindEnd},
		"session": {Kind: Update, Seq: 1},
		"done":    {Kind: Update, Session: 1, Seq: 3, Done: 3},
		"one":     {Kind: Update, Session: 1, Seq: 1, Dest: []uint16{1}},
		"order":   {Kind: Update, Session: 1, Seq: 1, Dest: []uint16{2, 1}},
		"twice":   {Kind: Update, Session: 1, Seq: 1, Dest: []uint16{1, 1}},
		"window":  {Kind: Update, Session: 1, Seq: MaxOutstanding + 1},
	} {
		_, err := DecodeRequest(q.Append(nil))
		require.Error(t, err, name)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add((&Request{Kind: Update, Session: 7, Seq: 5, Done: 3, Vector: counts(9), Command: []byte("c")}).Append(nil))
	f.Add((&Request{Kind: Query, Ticketed: true, Tickets: []posix.Ticket{{1}}, Command: []byte("c")}).Append(nil))
	f.Add((&Request{Kind: Update, Session: 7, Seq: 5, Done: 3, Vector: sample(), Patience: time.Second, Dest: []uint16{0, 2}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := DecodeRequest(b); err == nil {
			again, err := DecodeRequest(q.Append(nil))
			require.NoError(t, err)
			require.Equal(t, q, again)
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	f.Add((&Reply{Status: Answered, Vector: counts(1), Result: []byte("r")}).Append(nil))
	f.Add((&Reply{Status: Answered, Tickets: []posix.Ticket{{1}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := DecodeReply(b); err == nil {
			again, err := DecodeReply(p.Append(nil))
			require.NoError(t, err)
			require.Equal(t, p, again)
		}
	})
}

func FuzzDecodeStatus(f *testing.F) {
	f.Add((&Status{Partition: 2, Self: 300, Leads: true, Applied: 1 << 20, Undecided: 4, Age: time.Second}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := DecodeStatus(b); err == nil {
			again, err := DecodeStatus(s.Append(nil))
			require.NoError(t, err)
			require.Equal(t, s, again)
		}
	})
}

func FuzzReadClient(f *testing.F) {
	f.Add(AppendClient(nil, &Client{Name: "east", Authority: &posix.Authority{UIDs: []posix.IDs{{First: 1000, Last: 1999}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := varint.NewReader(b)
		if c := ReadClient(r); r.Done() == nil {
			r = varint.NewReader(AppendClient(nil, c))
			require.Equal(t, c, ReadClient(r))
			require.NoError(t, r.Done())
		}
	})
}

// A call without a bound of its time, and one with the longest time.
func TestPatienceIsInMilliseconds(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		0: 0, time.Millisecond: time.Millisecond, 1999 * time.Microsecond: time.Millisecond,
		maxPatience * time.Millisecond: maxPatience * time.Millisecond,
	} {
		q := Request{Kind: Update, Session: 1, Seq: 1, Patience: given}
		got, err := DecodeRequest(q.Append(nil))
		require.NoError(t, err)
		require.Equal(t, want, got.Patience)
	}
	q := Request{Kind: Update, Session: 1, Seq: 1, Patience: (maxPatience + 1) * time.Millisecond}
	_, err := DecodeRequest(q.Append(nil))
	require.Error(t, err)
}
