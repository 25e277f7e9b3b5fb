package serve

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/mount/mountpoint"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/trace"
)

// request is one request of the kernel as it came.
type request struct {
	raw         []byte
	buffer      *[]byte // the buffer that raw uses; nil: raw has its own memory
	began       time.Time
	order       Order
	content     []byte // the file content that follows the header of the answer without a copy
	holds       bool   // the request is counted in server.locked
	described   []hold // nodes that the answer describes, also counted in server.locked; GUARDED_BY server.mu until the request is handled
	suspended   bool   // GUARDED_BY server.mu; suspend may have ended the request's wait
	interrupted bool   // GUARDED_BY server.mu; the program of the request got a signal
}

func (r *request) op() uint32 { return binary.NativeEndian.Uint32(r.raw[4:]) }

func (r *request) unique() uint64 { return binary.NativeEndian.Uint64(r.raw[8:]) }

// thread returns the thread that has made the request; 0: it is not known.
func (r *request) thread() uint32 { return uint32At(r.raw, 32) }

// waits reports whether the thread certainly waits for the answer. The kernel also sends requests for which
// no thread waits: it may read and write pages in the background, and releases files and directories so.
func (r *request) waits() bool {
	switch r.op() {
	case opRead, opWrite, opRelease, opReleaseDir, opInterrupt:
		return false
	}
	return true
}

// node returns the inode of the request.
func (r *request) node() uint64 { return binary.NativeEndian.Uint64(r.raw[16:]) }

// unanswered reports whether the kernel expects no answer.
func (r *request) unanswered() bool { return r.op() == opForget || r.op() == opBatchForget }

// takeDescribed returns the nodes that the answer describes, and forgets them. The request is handled.
func (r *request) takeDescribed() []hold {
	all := r.described
	r.described = nil
	return all
}

// event describes an answered request for a trace.
func (r *request) event() trace.Event {
	return trace.Event{
		At: r.began, Took: time.Since(r.began), Thread: r.thread(),
		Step: fmt.Sprintf("serves %s of %d B", operationName(int(r.op())), len(r.raw)),
	}
}

// target returns the request that an interrupt refers to.
func (r *request) target() uint64 { return uint64At(r.raw, inHeaderSize) }

// maxFixed bounds an answer without its part of variable length, in bytes.
const maxFixed = 512

// maxPath is the length of the longest target of a symbolic link, in bytes (PATH_MAX).
const maxPath = 4096

// room returns the maximum length of the answer, in bytes.
func (r *request) room() int {
	switch r.op() {
	case opRead, opReadDir, opReadDirPlus:
		return maxFixed + int(uint32At(r.raw, inHeaderSize+16))
	case opGetXattr, opListXattr:
		return maxFixed + int(uint32At(r.raw, inHeaderSize))
	case opReadlink:
		return maxFixed + maxPath
	case opIoctl:
		return maxFixed + int(uint32At(r.raw, inHeaderSize+28))
	}
	return maxFixed
}

// uint32At decodes a number, 0 if b is too short for it.
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

// show replaces the root of the mount, as the kernel names it, by the inode root. A mount may show a
// directory of the tree instead of the whole tree: for the kernel its root has the node number of the root of
// the whole tree. Answers never name the directory, as no inode below a directory is that directory.
func (r *request) show(root posix.Ino) {
	if root == posix.Root || r.op() == opLookup && string(r.raw[inHeaderSize:]) == mountpoint.Probe+"\x00" { // go-fuse looks for that in the root
		return
	}
	r.replace(16, root)
	if r.op() == opRename || r.op() == opRename2 {
		r.replace(inHeaderSize, root) // the directory of the new name
	}
}

func (r *request) replace(at int, root posix.Ino) {
	if posix.Ino(uint64At(r.raw, at)) == posix.Root {
		binary.NativeEndian.PutUint64(r.raw[at:], uint64(root))
	}
}

// isQuiet reports whether the request does not change a state.
func (r *request) isQuiet() bool {
	switch r.op() {
	case opLookup, opGetAttr, opReadlink, opRead, opStatFS, opGetXattr, opListXattr, opReadDir, opReadDirPlus, opInterrupt, opAccess, opGetLk, opLseek:
		return true
	}
	return false
}
