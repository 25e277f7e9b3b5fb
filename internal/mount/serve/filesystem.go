package serve

import (
	"encoding/binary"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// FileSystem answers the requests of a mount. Its methods are called concurrently.
type FileSystem interface {
	fuse.RawFileSystem
	Requests
	Transfer
	// Connect gives the file system its access to the kernel. It is called once, before the first request.
	Connect(k *Kernel)
}

// Requests controls the requests that a file system is answering.
type Requests interface {
	// Interrupt makes all requests that can be repeated fail with EINTR, the current and the following ones,
	// until Continue.
	Interrupt()
	// Continue undoes Interrupt, and resumes work that Adopt or Interrupt has left unfinished.
	Continue()
	// Abandon makes all requests fail, because the kernel does not wait for answers any more.
	Abandon()
	// Close calls Abandon, and waits until the file system has no work in the background.
	Close()
}

// Transfer moves a file system from one process to the next.
type Transfer interface {
	// Suspend stops the file system and sets its part of a state. Its requests are answered or interrupted,
	// and none follows until Resume.
	Suspend(s *State) error
	// Resume undoes Suspend, also one that failed.
	Resume()
	// Snapshot sets the file system's part of a state. The file system continues.
	Snapshot(s *State) error
	// Adopt continues from the state of another process. It is called before the first request. If it fails,
	// it has changed nothing.
	Adopt(s *State) error
}

// Kernel sends notices and data to the kernel beside the answers of a file system. A nil Kernel does nothing.
type Kernel struct {
	server *server
}

// Attach sets the content behind the header of the answer to a read, so that it is not copied. It reports
// whether the request is known; the answer then has no content of its own.
func (k *Kernel) Attach(unique uint64, content []byte) bool {
	return k != nil && k.server.attach(unique, content)
}

// ForgetAttributes makes the kernel request the attributes of a node again before it uses anything that it
// has cached of the node.
func (k *Kernel) ForgetAttributes(node uint64) {
	if k == nil {
		return
	}
	body := binary.NativeEndian.AppendUint64(nil, k.node(node))
	body = binary.NativeEndian.AppendUint64(body, ^uint64(0)) // a negative offset: no pages
	body = binary.NativeEndian.AppendUint64(body, 0)
	_ = k.server.conn.notify(noticeInvalidInode, body) // an unknown node has no attributes
}

// Answered returns the number of requests that were answered so far, without those that have no answer.
func (k *Kernel) Answered() (n uint64) {
	if k == nil {
		return 0
	}
	for op := range k.server.operations.took {
		if op != opForget && op != opBatchForget && op != opInterrupt {
			n += k.server.operations.took[op].Count()
		}
	}
	return n
}
