package session

import (
	"encoding/binary"
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/varint"
)

// Clear removes all sessions from keys, and the records of ended ones. It returns the open ones: the caller
// releases everything that they held.
func Clear(keys meta.Keys) (open []uint64, err error) {
	for _, prefix := range []byte{sessionPrefix, answerPrefix, endedPrefix} {
		for k := range keys.Scan([]byte{prefix}, []byte{prefix + 1}) {
			if prefix == sessionPrefix {
				if len(k) != 9 {
					return nil, fmt.Errorf("stored session %x: %w", k, varint.ErrMalformed)
				}
				open = append(open, binary.BigEndian.Uint64(k[1:]))
			}
			keys.Delete(k)
		}
	}
	return open, nil
}
