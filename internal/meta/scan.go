package meta

import (
	"bytes"
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
)

// MaxScan bounds the bytes of keys and values in the answer to one OpScan. A single pair may exceed it.
const MaxScan = 1 << 20

// keysEnd is the first key that does not belong to this package.
var keysEnd = []byte{0x40}

// Pair is a stored key and its value.
type Pair struct{ Key, Value []byte }

// scan returns a page of the stored keys, for a check by another process.
func (m *Machine) scan(c *Command) Result {
	size := min(c.Length, MaxScan)
	var from []byte // of all keys
	if len(c.Data) > 0 {
		from = append(bytes.Clone(c.Data), 0) // the next key there could be
	}
	var r Result
	for key, value := range m.keys.Scan(from, keysEnd) {
		if len(r.Data) > 0 && uint64(len(r.Data)+len(key)+len(value)) > size {
			break
		}
		r.Data = varint.AppendBytes(r.Data, key)
		r.Data = varint.AppendBytes(r.Data, value)
		r.Number++
	}
	return r
}

// DecodeScan decodes the Result.Data of OpScan; the pairs alias b. The next OpScan goes on at the key of the
// last pair.
func DecodeScan(b []byte) (page []Pair, err error) {
	r := varint.NewReader(b)
	for r.Len() > 0 {
		page = append(page, Pair{Key: r.Bytes(), Value: r.Bytes()})
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("scanned keys: %w", err)
	}
	return page, nil
}
