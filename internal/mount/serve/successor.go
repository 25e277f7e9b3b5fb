package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNobody means that no process offers a mount.
var ErrNobody = errors.New("no process that would hand over this mount runs")

// RequestHandover requests the mount from the process that offers it at socket: ErrNobody if there is none.
// The mount is not served until Take or Handed.Close.
func RequestHandover(ctx context.Context, socket string) (*Handed, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixpacket", socket)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED): // never existed, or has ended
		return nil, fmt.Errorf("%w: %w", ErrNobody, err)
	case err != nil:
		return nil, fmt.Errorf("handover: %w", err)
	}
	l := &link{conn.(*net.UnixConn)}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	handed, err := l.request()
	if err != nil {
		return nil, fmt.Errorf("handover: %w", errors.Join(err, l.Close()))
	}
	return handed, nil
}

// request makes the predecessor hand over.
func (l *link) request() (*Handed, error) {
	if err := l.checkPeer(); err != nil {
		return nil, err
	}
	if err := l.send(wordHello); err != nil {
		return nil, err
	}
	word, fds, err := l.receive(answerTime+wordTime, 2)
	if err != nil {
		return nil, err
	}
	if word != wordState {
		return nil, fmt.Errorf("it is refused: %s", strings.TrimPrefix(word, wordNo))
	}
	handed, err := unpack(fds)
	if err == nil {
		handed.link = l
	}
	return handed, err
}

// unpack takes over the descriptors of a mount and its state.
func unpack(fds []int) (*Handed, error) {
	memory := os.NewFile(uintptr(fds[1]), "state")
	file, err := asFile(fds[0])
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	packed, err := readState(memory)
	if err = errors.Join(err, memory.Close()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Handed{File: file, State: packed}, nil
}

func readState(memory *os.File) ([]byte, error) {
	packed, err := io.ReadAll(io.NewSectionReader(memory, 0, maxHanded+1))
	if err == nil && len(packed) > maxHanded {
		err = fmt.Errorf("the state is longer than %d bytes", maxHanded)
	}
	return packed, err
}

// inMemory makes a file that has no name and is in memory.
func inMemory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("globalfs-state", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "state")
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
