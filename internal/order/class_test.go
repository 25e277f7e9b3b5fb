package order

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// bySender is a core whose classes are the senders.
type bySender struct{ Core }

func (bySender) Class(_ []multicast.GroupID, id multicast.MessageID) multicast.Class {
	return multicast.ClassOf([]multicast.GroupID{multicast.GroupID(id.Sender)})
}

// The class of a message is its destinations, unless the core between partitions names it.
func TestClass(t *testing.T) {
	id := multicast.MessageID{Sender: 7, Seq: 1}
	plain := New(1, 0, nil, struct{ Core }{}, 0)
	require.Equal(t, multicast.ClassOf([]multicast.GroupID{0, 3}), plain.Class([]uint16{0, 3}, id))
	named := New(1, 0, nil, bySender{}, 0)
	require.Equal(t, multicast.ClassOf([]multicast.GroupID{7}), named.Class([]uint16{0, 3}, id))
}
