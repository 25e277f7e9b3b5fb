package ask

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
)

// tagSize is the length of a tag in bytes.
const tagSize = 16

// MaxProofs bounds the proofs of a request. A reply covers all proofs of its request, so a client has about
// one proof for each request that runs.
const MaxProofs = 256

// maxProofBytes bounds the length of all proofs of a request, encoded.
const maxProofBytes = 256 << 10

// Proof is a vector that a replica has given to a client. The tag proves the vector to the replicas of other
// partitions, which cannot know the counts themselves.
type Proof struct {
	Vector Vector
	Tag    []byte
}

// Proofs are the vectors that a client was given. They stand for the merged vector. No proof covers another
// one.
type Proofs []Proof

// Add returns p with a newer proof, without the proofs that the newer one covers. It returns p if a proof of
// p covers the newer one. p is not changed.
func (p Proofs) Add(newer Proof) Proofs {
	if slices.ContainsFunc(p, func(old Proof) bool { return old.Vector.Covers(newer.Vector) }) {
		return p
	}
	kept := make(Proofs, 0, len(p)+1)
	for _, old := range p {
		if !newer.Vector.Covers(old.Vector) {
			kept = append(kept, old)
		}
	}
	return append(kept, newer)
}

// Merged returns the vector that p stands for.
func (p Proofs) Merged() (v Vector) {
	for i := range p {
		v = v.Merge(p[i].Vector)
	}
	return v
}

// Append appends the encoding of p.
func (p Proofs) Append(b []byte) []byte {
	b = varint.AppendUint(b, uint64(len(p)))
	for i := range p {
		b = varint.AppendBytes(p[i].Vector.Append(b), p[i].Tag)
	}
	return b
}

// ReadProofs reads proofs that Append has written. If the bytes are malformed, r.Err reports it.
func ReadProofs(r *varint.Reader) (p Proofs) {
	n := r.Count()
	if n > MaxProofs {
		r.Fail()
	}
	for end := r.Len() - maxProofBytes; n > 0 && r.Err() == nil; n-- {
		p = append(p, Proof{Vector: ReadVector(r), Tag: slices.Clone(r.Bytes())})
		if r.Len() < end {
			r.Fail()
		}
	}
	return p
}

// Token returns p as text, for people and scripts that carry it to another machine. ParseToken is the
// inverse.
func (p Proofs) Token() string { return base64.RawURLEncoding.EncodeToString(p.Append(nil)) }

// ParseToken reads proofs that Token has returned. The error quotes a text that is no token.
func ParseToken(text string) (Proofs, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("token %q: %w", text, err)
	}
	r := varint.NewReader(b)
	p := ReadProofs(r)
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("token %q: %w", text, err)
	}
	return p, nil
}

// Sealer gives the tags of proofs, and verifies them. All replicas of a cluster share its keys.
type Sealer interface {
	// Seal returns the tag of an encoded vector.
	Seal(vector []byte) []byte
	// Verify reports whether a replica of the cluster has made this tag for this encoded vector.
	Verify(vector, tag []byte) bool
}

// Keys is a Sealer with fixed keys. The first key makes the tags, and all keys verify them. An empty Keys
// makes empty tags and accepts every vector: such a cluster does not verify its clients.
type Keys [][]byte

// Seal returns the tag of an encoded vector.
func (k Keys) Seal(vector []byte) []byte {
	if len(k) == 0 {
		return nil
	}
	return tag(k[0], vector)
}

// Verify reports whether the given tag of the vector was made with one of the keys.
func (k Keys) Verify(vector, given []byte) bool {
	return len(k) == 0 || slices.ContainsFunc(k, func(key []byte) bool { return hmac.Equal(tag(key, vector), given) })
}

func tag(key, vector []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(vector)
	return mac.Sum(nil)[:tagSize]
}
