//go:build !verbs

package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBuiltWithout: the error of a program that was built without RDMA contains the remedy.
func TestBuiltWithout(t *testing.T) {
	_, err := New(Config{Self: 1, Dial: noDial})
	require.ErrorContains(t, err, "-tags verbs")
	require.ErrorIs(t, Check(""), err)
}
