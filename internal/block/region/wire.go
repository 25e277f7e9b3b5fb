package region

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/buffers"
	"github.com/globalfs/globalfs/internal/varint"
)

// op is the operation of a request. The numbers never change. The operations opPut and opStore, opGet and
// opFetch, opDelete and opDrop, opSync and opFlush, opPutAll and opStoreAll are pairs: the first is for
// clients and is executed for the whole region; the second is for servers and concerns only the disk of the
// server that receives the request. An arrow separates the fields of the request and of the reply.
type op uint8

const (
	opPut    op = 1 + iota // Block.Frame: id, CRC32C of id and data, data -> whether it is on disk (replyPut)
	opStore                // as opPut
	opGet                  // id -> CRC32C of id and data, data
	opFetch                // as opGet
	opDelete               // count, ids
	opDrop                 // as opDelete
	opList                 // from, to -> whether there are more, count, ids; of this server
	opUsage                // -> total, free, in bytes; of this server

	// Of this server; wire_servers.go has the formats.
	opPing       // stamp -> stamp
	opMembers    // -> members
	opSetMembers // members
	opStatus     // -> Status as JSON
	opDigest     // scope, from -> to, count, sum: of the next ids in scope
	opScope      // scope, from, to -> as opList: the ids in scope
	opHave       // stamp, whether to read the copies, ids -> number of examined ids, a bit for each
	opSizes      // ids -> the length of each in bytes, 0 for an absent block

	opSync  // write all blocks of the region to disk
	opFlush // write all blocks of this server to disk

	opGetByRight // for clients: id, Right -> as opGet
	opSign       // for clients: kind, id, Right, length, sum -> URL of a request to the object storage

	opPutAll   // at least one block, each: id, CRC32C of id and data, length, data -> as opPut
	opStoreAll // as opPutAll
	opEnd
)

// maxIDs is the maximum number of ids in one request or reply.
const maxIDs = 64 << 10

// listIDs is the number of ids in one reply to opList.
const listIDs = 1024

// request is a decoded request. The comment of its op names its fields.
type request struct {
	op       op
	id       block.ID      // of opGet, opGetByRight and opFetch
	right    block.Right   // of opGetByRight
	block    block.Block   // aliases the request
	blocks   []block.Block // of opPutAll and opStoreAll; they alias the request
	ids      []block.ID
	from, to block.ID
	stamp    stamp
	members  Members
	scope    scope
	read     bool
	signing  block.Signing // of opSign
}

// encodeStore returns a request that stores a block on one server, in memory of package buffers.
func encodeStore(b *block.Block) []byte {
	request := buffers.Take(1 + len(b.ID) + 4 + len(b.Data))[:0]
	request = append(append(request, byte(opStore)), b.ID[:]...)
	request = binary.LittleEndian.AppendUint32(request, b.Sum)
	return append(request, b.Data...)
}

// Bounds of one opPutAll: blocks, and the bytes of their data.
const (
	maxBlocks = 64
	maxBytes  = block.MaxSize
)

// encodeBlocks returns a request with blocks, in memory of package buffers.
func encodeBlocks(o op, blocks []*block.Block) []byte {
	size := 1
	for _, b := range blocks {
		size += len(b.ID) + 4 + binary.MaxVarintLen32 + len(b.Data)
	}
	request := buffers.Take(size)[:0]
	request = append(request, byte(o))
	for _, b := range blocks {
		request = binary.LittleEndian.AppendUint32(append(request, b.ID[:]...), b.Sum)
		request = varint.AppendBytes(request, b.Data)
	}
	return request
}

// readBlocks reads the blocks of encodeBlocks.
func readBlocks(r *varint.Reader) (blocks []block.Block) {
	size := 0
	for r.Len() > 0 && r.Err() == nil {
		var b block.Block
		var sum [4]byte
		r.Fixed(b.ID[:])
		r.Fixed(sum[:])
		b.Sum, b.Data = binary.LittleEndian.Uint32(sum[:]), r.Bytes()
		if size += len(b.Data); len(b.Data) == 0 || size > maxBytes || len(blocks) == maxBlocks {
			r.Fail()
		}
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		r.Fail()
	}
	return blocks
}

// encodeGet returns a request for a block.
func encodeGet(o op, id block.ID) []byte { return append([]byte{byte(o)}, id[:]...) }

// encodeGetByRight returns a request of a bound client for a block.
func encodeGetByRight(id block.ID, right block.Right) []byte {
	return append(encodeGet(opGetByRight, id), right[:]...)
}

// encodeSign returns a request for a signed request to the object storage.
func encodeSign(s *block.Signing) []byte {
	b := append(append([]byte{byte(opSign), byte(s.Do)}, s.ID[:]...), s.Right[:]...)
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, s.Length), s.Sum)
}

func readSigning(r *varint.Reader) (s block.Signing) {
	var kind [1]byte
	var numbers [8]byte
	r.Fixed(kind[:])
	r.Fixed(s.ID[:])
	r.Fixed(s.Right[:])
	r.Fixed(numbers[:])
	s.Do, s.Length, s.Sum = block.Signed(kind[0]), binary.LittleEndian.Uint32(numbers[:]), binary.LittleEndian.Uint32(numbers[4:])
	if s.Do == 0 || s.Do >= block.SignedEnd {
		r.Fail()
	}
	return s
}

// unknownOperation begins the error of a server that does not know the operation of a request. It never
// changes: clients of another version look for it.
const unknownOperation = "block request: unknown operation"

// isUnknown reports whether an error means that a server does not know the operation of a request.
func isUnknown(err error) bool { return err != nil && strings.Contains(err.Error(), unknownOperation) }

// encodeDelete returns a request that deletes at most maxIDs blocks.
func encodeDelete(o op, ids []block.ID) []byte { return appendIDs([]byte{byte(o)}, ids) }

// encodeList returns a request for ids.
func encodeList(from, to block.ID) []byte {
	return append(append([]byte{byte(opList)}, from[:]...), to[:]...)
}

// decodeRequest decodes a request.
func decodeRequest(b []byte) (request, error) {
	r := varint.NewReader(b)
	q := request{op: op(r.Uint8())}
	switch q.op {
	case opPut, opStore:
		r.Fixed(q.block.ID[:])
		q.block.Sum, q.block.Data = readBlock(r)
	case opPutAll, opStoreAll:
		q.blocks = readBlocks(r)
	case opGet, opFetch:
		r.Fixed(q.id[:])
	case opGetByRight:
		r.Fixed(q.id[:])
		r.Fixed(q.right[:])
	case opSign:
		q.signing = readSigning(r)
	case opDelete, opDrop:
		q.ids = readIDs(r)
	case opList:
		r.Fixed(q.from[:])
		r.Fixed(q.to[:])
	case opUsage, opMembers, opStatus, opSync, opFlush:
	case opPing, opSetMembers, opDigest, opScope, opHave, opSizes:
		readRegion(r, &q)
	default:
		return request{}, fmt.Errorf("%s %d", unknownOperation, q.op)
	}
	if err := r.Done(); err != nil {
		return request{}, fmt.Errorf("block request %d: %w", q.op, err)
	}
	return q, nil
}

// readBlock reads a checksum and the data behind it up to the end.
func readBlock(r *varint.Reader) (crc uint32, data []byte) {
	var sum [4]byte
	r.Fixed(sum[:])
	data = r.Rest()
	if len(data) == 0 || len(data) > block.MaxSize {
		r.Fail()
	}
	return binary.LittleEndian.Uint32(sum[:]), data
}

func appendIDs(b []byte, ids []block.ID) []byte {
	b = varint.AppendUint(b, uint64(len(ids)))
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

func readIDs(r *varint.Reader) []block.ID {
	n := r.Count()
	if n > maxIDs || n*len(block.ID{}) > r.Len() {
		r.Fail()
		return nil
	}
	ids := make([]block.ID, n)
	for i := range ids {
		r.Fixed(ids[i][:])
	}
	return ids
}

// code is the first byte of a reply. The numbers never change.
type code uint8

const (
	codeOK code = iota
	codeNotFound
	codeCorrupt
	codeNoSpace
	codeConflict
	codeUnavailable
	codeFailed // anything else
	codeStale
	codeForbidden
	codeEnd
)

// kinds are the errors of the codes.
var kinds = [codeEnd]error{
	codeNotFound:    block.ErrNotFound,
	codeCorrupt:     block.ErrCorrupt,
	codeNoSpace:     block.ErrNoSpace,
	codeConflict:    block.ErrConflict,
	codeUnavailable: block.ErrUnavailable,
	codeFailed:      errFailed,
	codeStale:       errStale,
	codeForbidden:   block.ErrForbidden,
}

var errFailed = errors.New("storage server failed")

// errStale means that two servers know different members: they exchange them, and try again.
var errStale = errors.New("the servers of the region have changed")

// maxText bounds the text of an error in a reply, in bytes.
const maxText = 1 << 10

// replyOK begins a reply that has up to room bytes more.
func replyOK(room int) []byte { return append(make([]byte, 0, 1+room), byte(codeOK)) }

// replyPut returns the reply to a put. It reports whether the copies are on disk. The replies of earlier
// versions do not contain this.
func replyPut(onDisk bool) []byte {
	if onDisk {
		return append(replyOK(1), 1)
	}
	return replyOK(0)
}

// isOnDisk reports whether the reply to a put confirms that the copies are on disk.
func isOnDisk(reply []byte) bool { return len(reply) > 1 && reply[1] == 1 }

// replyOffset is the offset of the data of a block in a reply.
const replyOffset = 1 + 4

// replyIn returns the reply with a block. If data is in room at replyOffset already, the reply is in room.
func replyIn(room []byte, id block.ID, data []byte) []byte {
	if end := replyOffset + len(data); len(data) > 0 && len(room) >= end && &room[replyOffset] == &data[0] {
		room = room[:end]
	} else {
		room = append(make([]byte, replyOffset, end), data...)
	}
	room[0] = byte(codeOK)
	binary.LittleEndian.PutUint32(room[1:], block.Sum(id, data))
	return room
}

// replyError returns the reply for err: its code, and its text for people.
func replyError(err error) []byte {
	c := codeFailed
	for candidate, kind := range kinds {
		if kind != nil && errors.Is(err, kind) {
			c = code(candidate)
			break
		}
	}
	text := err.Error()
	return append([]byte{byte(c)}, text[:min(len(text), maxText)]...)
}

// remoteError is an error that a server answered.
type remoteError struct {
	kind error
	text string
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// replyErr returns the error that a reply contains; nil for a good reply, whose body begins at its second
// byte.
func replyErr(b []byte) error {
	switch {
	case len(b) == 0 || b[0] >= byte(codeEnd):
		return fmt.Errorf("block reply: %w: %w", errFailed, varint.ErrMalformed)
	case b[0] == byte(codeOK):
		return nil
	}
	text := b[1:]
	return &remoteError{kind: kinds[b[0]], text: string(text[:min(len(text), maxText)])}
}

// decodeBlock returns the verified block of a good reply; it aliases reply.
func decodeBlock(id block.ID, reply []byte) (block.Block, error) {
	r := varint.NewReader(reply[1:])
	b := block.Block{ID: id}
	b.Sum, b.Data = readBlock(r)
	if err := r.Done(); err != nil {
		return block.Block{}, fmt.Errorf("block %v in a reply: %w", id, err)
	}
	if !b.IsIntact() {
		return block.Block{}, fmt.Errorf("block %v came with a wrong checksum: %w", id, block.ErrCorrupt)
	}
	return b, nil
}

// replyIDs returns the reply to opList.
func replyIDs(ids []block.ID, more bool) []byte {
	b := append(replyOK(8+len(ids)*len(block.ID{})), 0)
	if more {
		b[1] = 1
	}
	return appendIDs(b, ids)
}

// decodeIDs decodes the good reply to opList.
func decodeIDs(reply []byte) (ids []block.ID, more bool, err error) {
	r := varint.NewReader(reply[1:])
	more = r.Uint(1) == 1
	ids = readIDs(r)
	if err := r.Done(); err != nil {
		return nil, false, fmt.Errorf("list of blocks: %w", err)
	}
	return ids, more, nil
}

// replyUsage returns the reply to opUsage.
func replyUsage(total, free uint64) []byte {
	return varint.AppendUint(varint.AppendUint(replyOK(20), total), free)
}

// decodeUsage decodes the good reply to opUsage.
func decodeUsage(reply []byte) (total, free uint64, err error) {
	r := varint.NewReader(reply[1:])
	total, free = r.Uint64(), r.Uint64()
	if err := r.Done(); err != nil {
		return 0, 0, fmt.Errorf("usage: %w", err)
	}
	return total, free, nil
}
