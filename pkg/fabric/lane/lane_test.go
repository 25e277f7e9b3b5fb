package lane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// counts counts the ends of operations.
type counts struct{ landed, failed int }

func (c *counts) Landed(Flight, *fabric.Completion) { c.landed++ }
func (c *counts) Failed(Flight)                     { c.failed++ }

// ended returns the completion of an operation that has succeeded.
func ended(op fabric.Op) []fabric.Completion {
	return []fabric.Completion{{Token: op.Token, Kind: op.Kind, Peer: op.Peer, Region: op.Region}}
}

// TestBreak: operations under way count as failed, however they end, and the next operation comes after a
// reset. Move leads to another node.
func TestBreak(t *testing.T) {
	s, end := NewSet(time.Millisecond), &counts{}
	l := s.New(7, 1, end)
	var ops []fabric.Op
	var wake time.Duration
	s.Begin(1, &ops, &wake)
	require.True(t, l.Ready())
	l.Post(fabric.Op{}, 0, 0)
	l.Move(8)
	require.False(t, l.Settled())
	s.Complete(ended(ops[0]))
	require.Equal(t, counts{failed: 1}, *end)
	s.Begin(time.Second, &ops, &wake)
	require.False(t, l.Ready())
	require.Equal(t, fabric.Reset, ops[1].Kind)
	require.Equal(t, fabric.NodeID(8), ops[1].Peer)
	l.Break() // a reset under way does not count
	s.Complete(ended(ops[1]))
	s.Begin(2*time.Second, &ops, &wake)
	require.False(t, l.Ready())
	require.Equal(t, fabric.Reset, ops[2].Kind)
	s.Complete(ended(ops[2]))
	require.True(t, l.Settled())
	l.Post(fabric.Op{}, 0, 0)
	s.Complete(ended(ops[3]))
	require.Equal(t, counts{failed: 1, landed: 1}, *end)
}

// The first operation begins after a reset of the queue.
func TestFence(t *testing.T) {
	s := NewSet(time.Millisecond)
	s.Fence()
	l := s.New(7, 1, &counts{})
	var ops []fabric.Op
	var wake time.Duration
	s.Begin(1, &ops, &wake)
	require.False(t, l.Ready())
	require.Len(t, ops, 1)
	require.Equal(t, fabric.Reset, ops[0].Kind)
	s.Complete(ended(ops[0]))
	require.True(t, l.Ready())
}
