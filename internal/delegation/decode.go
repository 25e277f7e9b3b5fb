package delegation

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
)

// DecodeOp reads an operation that Op.Append has written; its slices alias b.
func DecodeOp(b []byte) (Op, error) {
	r := varint.NewReader(b)
	o, err := readOp(r)
	if err == nil {
		err = r.Done()
	}
	if err != nil {
		return Op{}, fmt.Errorf("operation of a log: %w", err)
	}
	return o, nil
}
