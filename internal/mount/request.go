package mount

import (
	"encoding/binary"
	"time"
)

// Operations of the protocol that the loop itself must know (enum fuse_opcode).
const (
	opLookup      = 1
	opForget      = 2
	opGetAttr     = 3
	opReadlink    = 5
	opRename      = 12
	opRead        = 15
	opStatFS      = 17
	opGetXattr    = 22
	opListXattr   = 23
	opInit        = 26
	opReadDir     = 28
	opGetLk       = 31
	opSetLk       = 32
	opSetLkw      = 33
	opAccess      = 34
	opInterrupt   = 36
	opIoctl       = 39
	opBatchForget = 42
	opReadDirPlus = 44
	opRename2     = 45
	opLseek       = 46
)

// request is one request of the kernel as it came.
type request struct {
	raw         []byte
	buffer      *[]byte // that raw is in; nil: it has memory of its own
	began       time.Time
	content     []byte // of a file, behind the answer's header: it is not copied
	suspended   bool   // GUARDED_BY server.mu; what it waits for may have been ended by suspend
	interrupted bool   // GUARDED_BY server.mu; its program got a signal
}

func (r *request) op() uint32 { return binary.NativeEndian.Uint32(r.raw[4:]) }

func (r *request) unique() uint64 { return binary.NativeEndian.Uint64(r.raw[8:]) }

// node is the inode that it is about.
func (r *request) node() uint64 { return binary.NativeEndian.Uint64(r.raw[16:]) }

// unanswered reports whether the kernel waits for no answer.
func (r *request) unanswered() bool { return r.op() == opForget || r.op() == opBatchForget }

// target is the request that an interrupt is about.
func (r *request) target() uint64 { return uint64At(r.raw, inHeaderSize) }

// maxFixed bounds an answer without what it has of variable length, in bytes.
const maxFixed = 512

// room is how long the answer may be, in bytes.
func (r *request) room() int {
	switch r.op() {
	case opRead, opReadDir, opReadDirPlus:
		return maxFixed + int(uint32At(r.raw, inHeaderSize+16))
	case opGetXattr, opListXattr:
		return maxFixed + int(uint32At(r.raw, inHeaderSize))
	case opIoctl:
		return maxFixed + int(uint32At(r.raw, inHeaderSize+28))
	}
	return maxFixed
}

// uint32At reads a number, 0 if b is too short for it.
func uint32At(b []byte, at int) uint32 {
	if len(b) < at+4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b[at:])
}

func uint64At(b []byte, at int) uint64 {
	if len(b) < at+8 {
		return 0
	}
	return binary.NativeEndian.Uint64(b[at:])
}
