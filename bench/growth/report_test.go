package growth

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// A report has the figures of an earlier run that it did not measure itself.
func TestAddToAReport(t *testing.T) {
	earlier := Report{
		Durability: "sync", Directory: 10, Operations: 5, Open: &Open{Files: 7},
		Points: []Point{{Files: 10, Stat: 1, Fsck: 2}, {Files: 1000, Stat: 3}},
	}
	var file bytes.Buffer
	require.NoError(t, earlier.WriteJSON(&file))
	now := Report{
		Durability: "sync", Directory: 10, Operations: 5, Idle: &Idle{Mounts: 1},
		Points: []Point{{Files: 10, Stat: 4, Backup: 5}, {Files: 100, Stat: 6}},
	}
	require.NoError(t, now.Add(file.Bytes()))
	require.Equal(t, Report{
		Durability: "sync", Directory: 10, Operations: 5, Open: &Open{Files: 7}, Idle: &Idle{Mounts: 1},
		Points: []Point{{Files: 10, Stat: 4, Fsck: 2, Backup: 5}, {Files: 100, Stat: 6}, {Files: 1000, Stat: 3}},
	}, now)
	var text bytes.Buffer
	require.NoError(t, now.WriteTable(&text))
	require.Contains(t, text.String(), " - ", "a figure that was not measured")

	other := Report{Durability: "os", Directory: 10, Operations: 5}
	require.ErrorContains(t, other.Add(file.Bytes()), "other settings")
	require.ErrorContains(t, other.Add([]byte("{")), "earlier run")
}
