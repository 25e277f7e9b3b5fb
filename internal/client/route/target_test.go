package route

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Parties of one partition are no update of several: a replica refuses a single destination.
func TestParties(t *testing.T) {
	for _, c := range []struct {
		to      Target
		asked   uint16
		parties []uint16
	}{
		{Partition(3), 3, nil},
		{Parties(3), 3, nil},
		{Parties(3, 3, 3), 3, nil},
		{Parties(3, 1), 3, []uint16{1, 3}},
		{Parties(1, 7, 3, 1, 7, 0), 1, []uint16{0, 1, 3, 7}},
	} {
		require.Equal(t, c.asked, c.to.partition)
		require.Equal(t, c.parties, c.to.parties)
		require.Equal(t, len(c.parties) > 0, c.to.Several())
	}
}

// Options change a copy: a target is a value.
func TestTargetOptions(t *testing.T) {
	plain := Inode(7)
	require.Equal(t, Target{ino: 7, fresh: true, named: true, session: 9}, plain.Fresh().AsSession().Under(9))
	require.Equal(t, Target{ino: 7}, plain)
}
