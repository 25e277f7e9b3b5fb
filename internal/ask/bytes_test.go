package ask

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The bytes are those of write-ahead logs and of clients of other versions: they must not change.
func TestEncodingsStayAsTheyWere(t *testing.T) {
	seen := Vector{{Count: 300}, {}, {Count: 1, Cross: multicast.Position{
		Final: 1 << 40, ID: multicast.MessageID{Sender: 7, Seq: 1 << 33},
	}}}
	update := Request{
		Kind: Update, Session: 1<<48 - 1, Seq: 5, Done: 3, Vector: seen, Dest: []uint16{0, 2}, Fresh: true, Command: []byte("c"),
	}
	renewal := Request{Kind: RenewSession, Session: 9, Held: []posix.Ino{1, posix.MakeIno(3, 9)}, Horizon: 1 << 40}
	reply := Reply{Status: UnknownSession, Vector: seen, Result: []byte("r")}
	status := Status{
		Partition: 2, Self: 300, Leads: true, Applied: 1 << 20, Undecided: 4, Age: 1500 * time.Millisecond,
	}
	client := Client{Name: "east", Authority: &posix.Authority{
		UIDs: []posix.IDs{{First: 1000, Last: 1999}}, GIDs: []posix.IDs{{First: 5, Last: 5}},
	}}
	for want, got := range map[string][]byte{
		"02ffffffffffff3f050303ac0200000001808080808020078080808020000500020163": update.Append(nil),
		"04090000000201898080808080c0018080808080200000":                         renewal.Append(nil),
		"0103ac02000000018080808080200780808080200172":                           reply.Append(nil),
		"02ac0201008080400480bcc1960b":                                           status.Append(nil),
		"046561737401e807e707010500":                                             AppendClient(nil, &client),
		"4136774341414141415943416749434149416541674943414941":                   []byte(seen.Token()),
	} {
		require.Equal(t, want, hex.EncodeToString(got))
	}
	back, err := DecodeStatus(status.Append(nil))
	require.NoError(t, err)
	require.Equal(t, status, back)
}
