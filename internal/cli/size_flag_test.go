package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]byteSize{"0": 0, "1000": 1000, "3KiB": 3 << 10, "512MiB": 512 << 20, "10GiB": 10 << 30, "2TiB": 2 << 40} {
		var s byteSize
		require.NoError(t, s.Set(text), text)
		require.Equal(t, want, s)
		require.Equal(t, text, s.String())
	}
	for text, want := range map[string]byteSize{"3K": 3 << 10, "512M": 512 << 20, "10G": 10 << 30, "2T": 2 << 40, "10g": 10 << 30} {
		var s byteSize
		require.NoError(t, s.Set(text), text)
		require.Equal(t, want, s)
	}
	for _, text := range []string{"", "G", "GiB", "-1", "10GB", "1.5GiB", "99999999999TiB", "10 GiB"} {
		var s byteSize
		require.ErrorContains(t, s.Set(text), "invalid size", text)
	}
}
