package meta

import (
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// AppendAuthority appends the encoding of an Authority that is not nil.
func AppendAuthority(b []byte, a *posix.Authority) []byte {
	for _, ranges := range [][]posix.IDs{a.UIDs, a.GIDs} {
		b = varint.AppendUint(b, uint64(len(ranges)))
		for _, r := range ranges {
			b = varint.AppendUint(varint.AppendUint(b, r.First), r.Last-r.First)
		}
	}
	return b
}

// ReadAuthority decodes an authority that AppendAuthority has encoded.
func ReadAuthority(r *varint.Reader) *posix.Authority {
	a := &posix.Authority{UIDs: readIDRanges(r), GIDs: readIDRanges(r)}
	if a.Validate() != nil {
		r.Fail()
	}
	return a
}

func readIDRanges(r *varint.Reader) (ranges []posix.IDs) {
	n := r.Count()
	if n > posix.MaxRanges {
		r.Fail()
	}
	for ; n > 0 && r.Err() == nil; n-- {
		first, more := r.Uint32(), r.Uint32()
		ranges = append(ranges, posix.IDs{First: first, Last: first + more}) // a range that wraps around is not valid
	}
	return ranges
}
