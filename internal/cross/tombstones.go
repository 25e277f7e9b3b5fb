package cross

import (
	"encoding/binary"
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

const tombstoneByte = byte(0x48)

func tombstoneKey(id multicast.MessageID) []byte {
	b := binary.BigEndian.AppendUint32([]byte{tombstoneByte}, uint32(id.Sender))
	return binary.BigEndian.AppendUint64(b, id.Seq)
}

// tombstones are the commands that this partition coordinates and has aborted before they are relayed:
// replicated state.
type tombstones struct {
	keys meta.Keys
	ids  map[multicast.MessageID]bool
}

func (t *tombstones) load() error {
	for k := range t.keys.Scan([]byte{tombstoneByte}, []byte{tombstoneByte + 1}) {
		if len(k) != 13 {
			return fmt.Errorf("stored tombstone %x: %w", k, varint.ErrMalformed)
		}
		t.ids[multicast.MessageID{
			Sender: multicast.ProcessID(binary.BigEndian.Uint32(k[1:])), Seq: binary.BigEndian.Uint64(k[5:]),
		}] = true
	}
	return nil
}

// has reports whether a command has a tombstone.
func (t *tombstones) has(id multicast.MessageID) bool { return t.ids[id] }

// set gives a command a tombstone.
func (t *tombstones) set(id multicast.MessageID) {
	t.ids[id] = true
	t.keys.Set(tombstoneKey(id), nil)
}

// remove removes the tombstone of a command that is relayed.
func (t *tombstones) remove(id multicast.MessageID) {
	delete(t.ids, id)
	t.keys.Delete(tombstoneKey(id))
}
