package replica

import (
	"bytes"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
)

// rememberFor is the time after which a notary forgets tags, because the keys may have changed.
const rememberFor = time.Second

// remembered is the number of proofs that a notary remembers: the newest ones that it has made or accepted.
const remembered = 16

// notary makes and verifies the tags of one replica. Clients show the same vectors repeatedly, so it
// remembers the last ones. It is not safe for concurrent use.
type notary struct {
	sealer   ask.Sealer
	sealed   seal          // the last seal that it has made
	since    time.Duration // begin of the time of which it remembers seals
	accepted [remembered]seal
	oldest   int // index of the entry of accepted that is overwritten next
	scratch  []byte
}

// seal is an encoded vector with its tag.
type seal struct{ vector, tag []byte }

// begin sets the present time, on the monotonic clock.
func (n *notary) begin(now time.Duration) {
	if now-n.since >= rememberFor {
		n.since, n.sealed, n.accepted = now, seal{}, [remembered]seal{}
	}
}

// tag returns the tag of a vector, with the number of a backup if that is not 0. The caller must not change
// the tag.
func (n *notary) tag(v ask.Vector, backup uint64) []byte {
	number := appendTagged(nil, backup)
	n.scratch = append(v.Append(n.scratch[:0]), number...)
	if !bytes.Equal(n.scratch, n.sealed.vector) {
		n.sealed = seal{slices.Clone(n.scratch), append(n.sealer.Seal(n.scratch), number...)}
		n.remember(n.sealed.vector[:len(n.scratch)-len(number)], n.sealed.tag) // the client shows it with the next request
	}
	return n.sealed.tag
}

// accepts reports whether replicas of the cluster have made all proofs in p.
func (n *notary) accepts(p ask.Proofs) bool {
	for i := range p {
		n.scratch = p[i].Vector.Append(n.scratch[:0])
		if n.remembers(p[i].Tag) {
			continue
		}
		tag, number := splitTag(p[i].Tag)
		if !n.sealer.Verify(append(n.scratch, number...), tag) {
			return false
		}
		n.remember(slices.Clone(n.scratch), p[i].Tag)
	}
	return true
}

// remember keeps a proof that replicas of the cluster have made.
func (n *notary) remember(vector, tag []byte) {
	n.accepted[n.oldest] = seal{vector, tag}
	n.oldest = (n.oldest + 1) % remembered
}

// remembers reports whether the vector in scratch was accepted together with a tag.
func (n *notary) remembers(tag []byte) bool {
	return slices.ContainsFunc(n.accepted[:], func(s seal) bool {
		return s.vector != nil && bytes.Equal(s.tag, tag) && bytes.Equal(s.vector, n.scratch)
	})
}
