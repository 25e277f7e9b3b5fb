package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connection is the open /dev/fuse of a mount, with the kernel's requests and the answers and notices to it.
// The mount lives as long as any process has it open. Any goroutine may read and write.
type connection struct {
	file   *os.File
	raw    syscall.RawConn
	pauses atomic.Uint64 // number of pauses so far; readers that began before the last pause must end
}

// errEnded means that the mount has ended: unmounted, or aborted.
var errEnded = errors.New("the mount has ended")

// errPaused means that reading is paused.
var errPaused = errors.New("reading is paused")

// newConnection takes over fd.
func newConnection(fd int) (*connection, error) {
	file, err := asFile(fd)
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &connection{file: file, raw: raw}, nil
}

// sameConnection returns a connection with a duplicate of the descriptor of file. So the owner of file can
// take the mount back.
func sameConnection(file *os.File) (*connection, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	same, err := (&connection{raw: raw}).duplicate()
	if err != nil {
		return nil, err
	}
	if raw, err = same.SyscallConn(); err != nil {
		return nil, errors.Join(err, same.Close())
	}
	return &connection{file: same, raw: raw}, nil
}

// duplicate returns another descriptor of the file. No reader may be active.
func (c *connection) duplicate() (*os.File, error) {
	return c.dup(asFile)
}

// share returns another descriptor of the file, which this connection continues to read.
func (c *connection) share() (*os.File, error) {
	return c.dup(func(fd int) (*os.File, error) { return os.NewFile(uintptr(fd), "/dev/fuse"), nil })
}

func (c *connection) dup(open func(fd int) (*os.File, error)) (file *os.File, err error) {
	failed := c.raw.Control(func(fd uintptr) {
		var other int
		if other, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			file, err = open(other)
		}
	})
	return file, errors.Join(failed, err)
}

// asFile returns a file that owns fd. No reader may be active. Reads of the file block a thread. With the
// runtime's poller, which would have to wake the readers, reading is half as fast.
func asFile(fd int) (*os.File, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, false); err != nil {
		return nil, errors.Join(fmt.Errorf("/dev/fuse: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "/dev/fuse"), nil
}

// kickPause is the time between two attempts to wake the readers that wait for a request.
const kickPause = 5 * time.Millisecond

// pause stops reading: readers that began before get errPaused, and no request is lost. It returns when
// stopped is closed: all readers have ended. A signal without other effects wakes the readers that wait in
// the kernel for a request; they then find that they must not wait.
func (c *connection) pause(ctx context.Context, stopped <-chan struct{}) error {
	c.pauses.Add(1)
	if err := c.block(false); err != nil {
		return err
	}
	ticker := time.NewTicker(kickPause)
	defer ticker.Stop()
	for {
		kickThreads()
		select {
		case <-stopped:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// kickThreads sends all threads of this process a signal that the runtime uses for itself and expects at any
// time.
func kickThreads() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Tgkill(os.Getpid(), id, unix.SIGURG) // the thread may have ended
		}
	}
}

// resume lets new readers wait for requests.
func (c *connection) resume() error { return c.block(true) }

// block sets whether readers wait for a request.
func (c *connection) block(yes bool) (err error) {
	if failed := c.raw.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), !yes) }); failed != nil {
		return failed
	}
	return err
}

// read reads one request. pauses is the number of pauses before the beginning of the reader.
func (c *connection) read(into []byte, pauses uint64) (n int, err error) {
	for c.pauses.Load() == pauses {
		if c.raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), into) }) != nil {
			return 0, errEnded // closed
		}
		switch err {
		case nil:
			return n, nil
		case unix.ENODEV, unix.ECONNABORTED:
			return 0, errEnded
		case unix.EINTR, unix.ENOENT, unix.EAGAIN: // ENOENT: its program has ended the request; EAGAIN: pausing
		default:
			return 0, fmt.Errorf("/dev/fuse: %w", err)
		}
	}
	return 0, errPaused
}

// write writes one answer or notice.
func (c *connection) write(parts ...[]byte) error {
	var wrote error
	err := c.raw.Control(func(fd uintptr) {
		for wrote = unix.EINTR; wrote == unix.EINTR; {
			_, wrote = unix.Writev(int(fd), parts)
		}
	})
	return errors.Join(err, wrote)
}

// Sizes and places in the headers of the protocol, in bytes.
const (
	inHeaderSize  = 40
	outHeaderSize = 16
)

// Codes of notices (enum fuse_notify_code).
const (
	noticeInvalidInode = 2
	noticeInvalidEntry = 3
	noticeResend       = 7
)

// notify sends a notice to the kernel.
func (c *connection) notify(code uint32, body []byte) error {
	header := binary.NativeEndian.AppendUint32(nil, uint32(outHeaderSize+len(body)))
	header = binary.NativeEndian.AppendUint32(header, code)
	header = binary.NativeEndian.AppendUint64(header, 0) // a notice belongs to no request
	return c.write(header, body)
}

// resend makes the kernel repeat the requests that were read and not answered. It needs Linux 6.9 and the
// negotiated capability.
func (c *connection) resend() error { return c.notify(noticeResend, nil) }
