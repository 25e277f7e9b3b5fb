package replica

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/varint"
)

// A replica takes over the state of another replica of its partition if it was absent for longer than the
// others keep messages for it, or if its disk is lost (thesis 3.4.3). The state consists of the states of
// both cores and of the store.

// maxCoreState bounds the memory that Adopt allocates for the states of the cores, in bytes.
const maxCoreState = 1 << 30

// ErrNotNewer is the error of Adopt for a state that is not newer than the own one. The state of another
// replica, or a later state of the same one, may be usable.
var ErrNotNewer = errors.New("this state does not do")

// CoreStates returns the states of the cores, which another replica needs together with the present store.
// All steps so far must be durable and applied.
func (r *Replica) CoreStates() []byte { return r.orders.State() }

// Export writes a state for Adopt: the result of CoreStates, and a view of the store from the same moment.
func Export(w io.Writer, states []byte, store meta.Scanner) error {
	if _, err := w.Write(append(binary.AppendUvarint(nil, uint64(len(states))), states...)); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return meta.Snapshot(store, w)
}

// adoptedKey holds the record that must replace the write-ahead log. The store is written first, and the log
// afterwards. If the process ends in between, the next start finds the record here. In the other order, a log
// without its store would lead to deliveries with a gap.
var adoptedKey = []byte{0x44}

// Adopted returns the record that must replace the write-ahead log, as a checkpoint, before store and log are
// used; nil if there is none. After that the caller calls EndAdoption.
func Adopted(keys Keys) []byte { return keys.Get(adoptedKey) }

// EndAdoption records that the log consists of the record from Adopted.
func EndAdoption(keys Keys) error {
	keys.Delete(adoptedKey)
	return keys.Commit(true)
}

// Adopt replaces the store by that of another replica; it holds a bounded part of it in memory. The process
// must restart afterwards (Adopted). After an error nothing has changed.
func (r *Replica) Adopt(state io.Reader) error {
	in := bufio.NewReader(state)
	n, err := binary.ReadUvarint(in)
	if err != nil || n > maxCoreState {
		return fmt.Errorf("adopt: states of %d bytes: %w", n, errors.Join(err, varint.ErrMalformed))
	}
	states := new(bytes.Buffer)
	if _, err := io.CopyN(states, in, int64(n)); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	record, err := r.orders.Adopt(states.Bytes())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotNewer, err)
	}
	if err := r.restore(in, record); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	return nil
}
