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

// A replica that was away for longer than the others keep for it, or whose disk is gone, takes over the state
// of another one of its partition: what both cores need, and the store (DESIGN 4.1, T 3.4.3).

// maxCoreState bounds what a forged length can make Adopt allocate, in bytes.
const maxCoreState = 1 << 30

// ErrNotNewer is what Adopt gives for a state that does not help: another replica's, or the same one's
// later, may.
var ErrNotNewer = errors.New("this state does not do")

// CoreStates returns the state that another replica needs beside the store as it is now. All that was stepped
// must be durable and applied.
func (r *Replica) CoreStates() []byte { return r.orders.State() }

// Export writes a state for Adopt: states as CoreStates gave them, and the store as it was at that time.
func Export(w io.Writer, states []byte, store meta.Scanner) error {
	if _, err := w.Write(append(binary.AppendUvarint(nil, uint64(len(states))), states...)); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return meta.Snapshot(store, w)
}

// adoptedKey holds what must take the place of the write-ahead log: store and log are two, and the process
// may end between them. The store is first; a log without its store would be delivered with a hole.
var adoptedKey = []byte{0x44}

// Adopted gives the record that must take the place of the write-ahead log, as a checkpoint, before anything
// is made of store and log; nil if there is none. Then EndAdoption.
func Adopted(keys Keys) []byte { return keys.Get(adoptedKey) }

// EndAdoption notes that the log is what Adopted gave.
func EndAdoption(keys Keys) error {
	keys.Delete(adoptedKey)
	return keys.Commit(true)
}

// Adopt replaces the store by that of another replica. Then the process must start anew (Adopted). After an
// error nothing has changed.
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
	if err := r.restore(in); err != nil {
		return err
	}
	r.keys.Set(adoptedKey, record)
	if err := r.keys.Commit(true); err != nil {
		return fmt.Errorf("adopt: store: %w", err)
	}
	return nil
}
