package ask

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// sample has every field of a Seen.
func sample() Vector {
	return Vector{
		{Count: 300, Known: 300, Undecided: []uint64{7, 290}},
		{},
		{Count: 1 << 40, Open: []uint64{9, 1 << 33}, OpenUpTo: 4, Known: 5, Undecided: []uint64{5}, History: 1 << 32},
	}
}

// The bytes are those of write-ahead logs and of clients of other versions: they must not change.
func TestEncodingsStayAsTheyWere(t *testing.T) {
	update := Request{
		Kind: Update, Session: 1<<48 - 1, Seq: 5, Done: 3, Vector: sample(), Dest: []uint16{0, 2}, Fresh: true, Command: []byte("c"),
		Patience: 1500 * time.Millisecond,
	}
	renewal := Request{Kind: RenewSession, Session: 9, Held: []posix.Ino{1, posix.MakeIno(3, 9)}, Horizon: 1 << 40}
	reply := Reply{Status: UnknownSession, Vector: sample(), Result: []byte("r")}
	status := Status{
		Partition: 2, Self: 300, Leads: true, Applied: 1 << 20, Undecided: 4, Histories: 3, Malformed: 2, Age: 1500 * time.Millisecond,
	}
	client := Client{Name: "east", Authority: &posix.Authority{
		UIDs: []posix.IDs{{First: 1000, Last: 1999}}, GIDs: []posix.IDs{{First: 5, Last: 5}},
	}}
	progress := multicast.Progress{
		{Class: multicast.ClassOf([]multicast.GroupID{0, 2}), Position: multicast.Position{
			Final: 1 << 40, ID: multicast.MessageID{Sender: 7, Seq: 1 << 33},
		}},
		{Class: multicast.ClassOf([]multicast.GroupID{1, 258}), Position: multicast.Position{
			Final: 1, ID: multicast.MessageID{Sender: 1, Seq: 2},
		}},
	}
	const vector = "03" + "ac02" + "04" + "02079b02" + "0000" +
		"808080808020" + "1f" + "0209f7ffffff1f" + "04" + "0105" + "fbffffffff1f" + "8080808010"
	for want, got := range map[string][]byte{
		"02" + "ffffffffffff3f" + "0503" + "01" + vector + "00" + "0000" + "00" + "dc0b" + "050002" + "0163": update.Append(nil),
		"040900000000000201898080808080c0018080808080200000":                                                 renewal.Append(nil),
		"01" + vector + "00" + "0172":                                                                        reply.Append(nil),
		"02ac02010080804004030280bcc1960b":                                                                   status.Append(nil),
		"046561737401e807e707010500":                                                                         AppendClient(nil, &client),
		vector:                                                                                               sample().Append(nil),
		"1a" + "02" + "0400000002" + "808080808020" + "07" + "8080808020" + "0400010102" + "010102": AppendProgress(nil, progress),
	} {
		require.Equal(t, want, hex.EncodeToString(got))
	}
	require.Equal(t, "AgECAAN0YWcCAAABAAA", Proofs{{Vector: counts(2), Tag: []byte("tag")}, {Vector: counts(0, 1)}}.Token())
	back, err := DecodeStatus(status.Append(nil))
	require.NoError(t, err)
	require.Equal(t, status, back)
}
