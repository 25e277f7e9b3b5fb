package region

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// maxStatus bounds a Status on the wire, in bytes.
const maxStatus = 1 << 20

// readRegion decodes the requests by which servers keep their region whole.
func readRegion(r *varint.Reader, q *request) {
	switch q.op {
	case opPing:
		q.stamp = readStamp(r)
	case opSetMembers:
		q.members = readMembers(r)
	case opDigest:
		q.scope = readScope(r)
		r.Fixed(q.from[:])
	case opScope:
		q.scope = readScope(r)
		r.Fixed(q.from[:])
		r.Fixed(q.to[:])
	case opSizes:
		if q.ids = readIDs(r); len(q.ids) > maxSizes {
			r.Fail()
		}
	case opHave:
		q.stamp = readStamp(r)
		q.read = r.Uint(1) == 1
		if q.ids = readIDs(r); len(q.ids) == 0 || len(q.ids) > maxHave {
			r.Fail()
		}
	}
}

// maxSizes is the maximum number of ids in one opSizes.
const maxSizes = 1024

func encodeSizes(ids []block.ID) []byte { return appendIDs([]byte{byte(opSizes)}, ids) }

func replySizes(sizes []uint32) []byte {
	b := replyOK(5 * len(sizes))
	for _, size := range sizes {
		b = varint.AppendUint(b, size)
	}
	return b
}

// decodeSizes decodes the answer for count blocks.
func decodeSizes(count int, reply []byte) ([]uint32, error) {
	r := varint.NewReader(reply[1:])
	sizes := make([]uint32, count)
	for i := range sizes {
		sizes[i] = uint32(r.Uint(block.MaxSize))
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("sizes of %d blocks: %w", count, err)
	}
	return sizes, nil
}

func encodePing(s stamp) []byte { return appendStamp([]byte{byte(opPing)}, s) }

func replyPing(s stamp) []byte { return appendStamp(replyOK(20), s) }

func decodePing(reply []byte) (stamp, error) {
	r := varint.NewReader(reply[1:])
	s := readStamp(r)
	if err := r.Done(); err != nil {
		return stamp{}, fmt.Errorf("answer to a ping: %w", err)
	}
	return s, nil
}

func encodeSetMembers(m *Members) []byte { return appendMembers([]byte{byte(opSetMembers)}, m) }

func replyMembers(m *Members) []byte { return appendMembers(replyOK(16*len(m.Servers)), m) }

func decodeMembers(reply []byte) (Members, error) {
	r := varint.NewReader(reply[1:])
	m := readMembers(r)
	if err := r.Done(); err != nil {
		return Members{}, fmt.Errorf("members: %w", err)
	}
	return m, nil
}

func appendScope(b []byte, s *scope) []byte {
	b = varint.AppendUint(appendStamp(b, s.stamp), uint32(s.asker))
	b = varint.AppendUint(b, uint64(len(s.down)))
	for _, p := range s.down {
		b = varint.AppendUint(b, uint32(p))
	}
	return b
}

func readScope(r *varint.Reader) scope {
	s := scope{stamp: readStamp(r), asker: multicast.ProcessID(r.Uint32())}
	n := r.Count()
	if n > maxServers {
		r.Fail()
		return scope{}
	}
	for range n {
		s.down = append(s.down, multicast.ProcessID(r.Uint32()))
	}
	return s
}

func encodeDigest(s *scope, from block.ID) []byte {
	return append(appendScope([]byte{byte(opDigest)}, s), from[:]...)
}

func replyDigest(d digest) []byte {
	b := append(replyOK(len(d.to)+20), d.to[:]...)
	return varint.AppendUint(varint.AppendUint(b, d.count), d.sum)
}

// decodeDigest decodes the good reply to opDigest from an id on.
func decodeDigest(from block.ID, reply []byte) (d digest, err error) {
	r := varint.NewReader(reply[1:])
	r.Fixed(d.to[:])
	d.count, d.sum = r.Uint64(), r.Uint64()
	if bytes.Compare(d.to[:], from[:]) < 0 {
		r.Fail() // the caller continues after to: it would never end
	}
	if err := r.Done(); err != nil {
		return digest{}, fmt.Errorf("digest of blocks: %w", err)
	}
	return d, nil
}

func encodeScope(s *scope, from, to block.ID) []byte {
	return append(append(appendScope([]byte{byte(opScope)}, s), from[:]...), to[:]...)
}

func encodeHave(s stamp, read bool, ids []block.ID) []byte {
	b := append(appendStamp([]byte{byte(opHave)}, s), 0)
	if read {
		b[len(b)-1] = 1
	}
	return appendIDs(b, ids)
}

// replyHave returns the reply to opHave: a bit for each of the first ids.
func replyHave(have []bool) []byte {
	b := varint.AppendUint(replyOK(8+len(have)/8), uint64(len(have)))
	bits := make([]byte, (len(have)+7)/8)
	for i, has := range have {
		if has {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return append(b, bits...)
}

// decodeHave decodes the good reply to opHave of asked ids. The server has examined at least one.
func decodeHave(asked int, reply []byte) ([]bool, error) {
	r := varint.NewReader(reply[1:])
	n := int(r.Uint(uint64(asked)))
	bits := r.Rest()
	if n == 0 || len(bits) != (n+7)/8 {
		return nil, fmt.Errorf("answer about %d blocks: %w", asked, varint.ErrMalformed)
	}
	have := make([]bool, n)
	for i := range have {
		have[i] = bits[i/8]&(1<<(i%8)) != 0
	}
	return have, nil
}

func replyStatus(s *Status) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return append(replyOK(len(text)), text...), nil
}

func decodeStatus(reply []byte) (s Status, err error) {
	if len(reply) > maxStatus {
		return Status{}, fmt.Errorf("status of %d bytes: %w", len(reply), varint.ErrMalformed)
	}
	if err := json.Unmarshal(reply[1:], &s); err != nil {
		return Status{}, fmt.Errorf("status: %w", err)
	}
	return s, nil
}
