package ask

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/varint"
)

// A list that is flagged as present has places: otherwise one Seen has two encodings, and the decoded one differs from
// what is read again.
func TestAListThatIsPresentIsNotEmpty(t *testing.T) {
	for _, b := range [][]byte{{9, hasOpen, 0}, {9, hasUndecided, 0}} {
		r := varint.NewReader(b)
		s := ReadSeen(r)
		if r.Done() == nil {
			require.Equal(t, s, ReadSeen(varint.NewReader(s.Append(nil))))
		}
	}
}

// What was merged covers both sides, also when the bound of many open places was passed and all up to it is decided.
func TestCoversAllThatIsDecided(t *testing.T) {
	many := Seen{Count: 100, OpenUpTo: 90}
	later := State(200, []uint64{150}, nil)
	merged := many.Merge(later)
	require.Zero(t, merged.LastOpen())
	require.True(t, merged.Covers(many), "all places up to 90 are decided at 200")
}
