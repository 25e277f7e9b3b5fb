package delegation

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Revocation names a recalled grant. Its execution ends the grant.
//
// Several replicas may propose the revocation of the same grant, and a proposal may be ordered late.
// Meanwhile the grant may have ended, and the session may have got the directory again. The number tells the
// two grants apart. Only grants of existing directories have one: a directory is made once, so the grant with
// which it was made is the only one without a number. Older versions give no numbers. Their revocations, and
// those of grants without a number, end any grant without a number that the session has for the directory.
type Revocation struct {
	Session uint64
	Dir     posix.Ino
	Grant   uint64 // number of the grant; 0: it has none
}

// Append appends the encoding of v. Without a number it is the encoding of versions that know no numbers.
func (v *Revocation) Append(b []byte) []byte {
	b = varint.AppendUint(varint.AppendUint(b, v.Session), v.Dir)
	if v.Grant != 0 {
		b = varint.AppendUint(b, v.Grant)
	}
	return b
}

// DecodeRevocation reads a revocation that Append has written.
func DecodeRevocation(b []byte) (Revocation, error) {
	r := varint.NewReader(b)
	v := Revocation{Session: r.Uint64(), Dir: posix.Ino(r.Uint64())}
	if r.Len() > 0 {
		v.Grant = r.Uint64()
	}
	if err := r.Done(); err != nil {
		return Revocation{}, fmt.Errorf("revocation: %w", err)
	}
	return v, nil
}

// Revocations returns a revocation for each recalled grant, in the order of the directories.
func (t *Table) Revocations() (all []Revocation) {
	for _, dir := range t.Recalled(0) {
		g := t.recall[dir]
		all = append(all, Revocation{Session: g.session, Dir: dir, Grant: g.number})
	}
	return all
}

// EndRecalled executes a revocation: it ends the grant that v names, if this grant has not ended.
func (t *Table) EndRecalled(v *Revocation) {
	g := t.dirs[v.Dir]
	if g != nil && g.session == v.Session && g.number == v.Grant && (g.recalled || g.number == 0) {
		t.end(g)
	}
}
