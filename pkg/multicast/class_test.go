package multicast

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func at(final Timestamp) Position {
	return Position{Final: final, ID: MessageID{Sender: 1, Seq: uint64(final)}}
}

func TestClass(t *testing.T) {
	c := ClassOf([]GroupID{1, 0x203})
	require.Equal(t, []GroupID{1, 0x203}, c.Groups())
	require.Equal(t, "{1 515}", c.String())
	require.True(t, c.To(0x203))
	require.False(t, c.To(2))
	require.True(t, Class("").To(2))
}

func TestProgress(t *testing.T) {
	a, b := ClassOf([]GroupID{1}), ClassOf([]GroupID{1, 2})
	var p Progress
	require.False(t, p.Advance(b, Position{}))
	require.True(t, p.Advance(b, at(3)))
	require.True(t, p.Advance(a, at(7)))
	require.False(t, p.Advance(a, at(6)))
	require.Equal(t, at(7), p.Of(a))
	require.Equal(t, at(3), p.Of(b))
	require.Zero(t, p.Of(""))
	require.True(t, p.Covers(nil))
	require.False(t, p.Covers(UpTo(at(1))))
	more := Progress{{a, at(2)}, {b, at(9)}}
	require.False(t, p.Covers(more))
	p.Merge(more)
	require.Equal(t, Progress{{a, at(7)}, {b, at(9)}}, p)
	require.True(t, p.Covers(more))
	got, err := DecodeProgress(p.Append(nil))
	require.NoError(t, err)
	require.True(t, p.Equal(got))
}

func FuzzProgress(f *testing.F) {
	f.Add(Progress(nil).Append(nil))
	f.Add(UpTo(at(300)).Append(nil))
	f.Add(Progress{{ClassOf([]GroupID{1}), at(7)}, {ClassOf([]GroupID{1, 2}), at(9)}}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodeProgress(b)
		if err != nil {
			return
		}
		again, err := DecodeProgress(p.Append(nil))
		require.NoError(t, err)
		require.True(t, p.Equal(again))
	})
}
