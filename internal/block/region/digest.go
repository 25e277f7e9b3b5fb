package region

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Bounds of one digest.
const (
	digestIDs = 1024     // ids in scope
	digestAll = 64 << 10 // ids examined
)

// maxHave is the maximum number of ids in one opHave.
const maxHave = 64

// checkEvery is the number of ids between two checks of the clock.
const checkEvery = 256

// haveBytes is about the number of bytes of copies that one opHave reads.
const haveBytes = 8 << 20

// scope describes the ids that two servers should both have: those of which both are keepers. Only servers
// that know the same members agree on it.
type scope struct {
	stamp stamp                 // the stamp of the members
	asker multicast.ProcessID   // one of the two servers; the other one receives the request
	down  []multicast.ProcessID // the servers that are down, as the asker knows them
}

// has reports whether both the asker and self keep the block with an id.
func (s *scope) has(v *view, self multicast.ProcessID, id block.ID) bool {
	keepers := v.keepers(id, s.down)
	return slices.Contains(keepers, s.asker) && slices.Contains(keepers, self)
}

// digest summarizes the ids in a scope from a given id up to to. Different sets have different digests, with
// high probability.
type digest struct {
	to    block.ID
	count uint64
	sum   uint64 // of the hashes of the ids, in any order
}

func (d *digest) add(id block.ID) {
	d.count++
	d.sum += hash(id)
}

// hash mixes an id well, since ids of one writer differ in a few bits (the finalizer of MurmurHash3, over two
// words).
func hash(id block.ID) uint64 {
	return mix(mix(binary.LittleEndian.Uint64(id[:8])+0x9e3779b97f4a7c15) + bits.ReverseBytes64(binary.LittleEndian.Uint64(id[8:])))
}

func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// haveStamp returns this server's view of the members if the stamp of these members is s. Otherwise it
// returns errStale.
func (n *Node) haveStamp(s stamp) (*view, error) {
	if v := n.view.Load(); v.stamp == s {
		return v, nil
	}
	return nil, errStale
}

// answerBy returns the time until which this server collects ids for an answer. After it, the server sends
// what it has collected: the caller waits for CallTimeout only.
func (n *Node) answerBy() time.Time { return time.Now().Add(n.config.CallTimeout / 2) }

// answerDigest returns the digest of the next ids on the own disk that are in scope.
func (n *Node) answerDigest(ctx context.Context, q *request) ([]byte, error) {
	v, err := n.haveStamp(q.scope.stamp)
	if err != nil {
		return nil, err
	}
	end := n.answerBy()
	d := digest{to: block.LastID}
	examined := 0
	for id, err := range n.config.Disk.Range(ctx, q.from, block.LastID) {
		if err != nil {
			return nil, err
		}
		if q.scope.has(v, n.config.Self, id) {
			d.add(id)
		}
		examined++
		if d.count == digestIDs || examined == digestAll || examined%checkEvery == 0 && time.Now().After(end) {
			d.to = id
			break
		}
	}
	return replyDigest(d), nil
}

// ownDigest returns the digest of the ids on the own disk from from to to that are in scope with a peer.
func (n *Node) ownDigest(ctx context.Context, v *view, s *scope, peer multicast.ProcessID, from, to block.ID) (digest, error) {
	d := digest{to: to}
	for id, err := range n.config.Disk.Range(ctx, from, to) {
		if err != nil {
			return digest{}, err
		}
		if s.has(v, peer, id) {
			d.add(id)
		}
	}
	return d, nil
}

// answerScope returns one page of the ids on the own disk that are in scope.
func (n *Node) answerScope(ctx context.Context, q *request) ([]byte, error) {
	v, err := n.haveStamp(q.scope.stamp)
	if err != nil || bytes.Compare(q.from[:], q.to[:]) > 0 {
		return replyIDs(nil, false), err
	}
	ids := make([]block.ID, 0, digestIDs)
	for id, err := range n.config.Disk.Range(ctx, q.from, q.to) {
		if err != nil {
			return nil, err
		}
		if q.scope.has(v, n.config.Self, id) {
			ids = append(ids, id)
		}
		if len(ids) == digestIDs {
			break
		}
	}
	return replyIDs(ids, len(ids) == digestIDs), nil
}

// answerHave reports for the first of the ids whether they are on this disk or, if the request wants the
// copies read, whether they have good copies. The server knows the members of the caller when it begins the
// check (M4).
func (n *Node) answerHave(ctx context.Context, q *request) ([]byte, error) {
	if _, err := n.haveStamp(q.stamp); err != nil {
		return nil, err
	}
	sizes, err := n.config.Disk.Sizes(ctx, q.ids)
	if err != nil {
		return nil, err
	}
	end, read := n.answerBy(), 0
	have := make([]bool, 0, len(sizes))
	for i, size := range sizes {
		good := size > 0
		if good && q.read {
			if len(have) > 0 && (read > haveBytes || time.Now().After(end)) {
				break
			}
			read += int(size)
			if good, err = n.isGood(ctx, q.ids[i]); err != nil {
				return nil, err
			}
		}
		have = append(have, good)
	}
	return replyHave(have), nil
}
