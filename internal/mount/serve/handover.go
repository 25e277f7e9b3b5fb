package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
)

// Handed is a mount on its way from one process to the next.
type Handed struct {
	File  *os.File // the open /dev/fuse
	State []byte

	link *link // the connection to the predecessor; nil: no process would take the mount back
}

// ErrBusy means that a mount cannot be handed over now.
var ErrBusy = errors.New("requests are under way that change something, and the cluster does not answer: try again when it can be reached")

// ErrNoResend means that requests of a dead process hang until the mount is aborted, because the kernel
// cannot repeat them.
var ErrNoResend = errors.New("the kernel does not send again what was read (Linux 6.9 does): programs may hang until the mount is unmounted by 'umount -f'")

// Close abandons a mount that was not taken: a predecessor continues to serve it.
func (h *Handed) Close() error {
	err := h.File.Close()
	if h.link != nil {
		err = errors.Join(err, h.link.Close())
	}
	return err
}

// Handover stops serving, and returns the mount for another process. Programs see only a wait: their requests
// wait in the kernel. The successor begins requests again that only read, or wait for a lock. Handover waits
// for requests that change something, until ctx ends: then this process continues to serve and the error is
// ErrBusy. Handover suspends the file system with its client; the caller first stops other users of that
// client. TakeBack or Leave must follow. The caller closes the result.
func (m *Mount) Handover(ctx context.Context) (*Handed, error) {
	select {
	case m.handing <- struct{}{}:
	default:
		return nil, errors.New("the mount is being handed over already")
	}
	handed, err := m.part(ctx)
	if err != nil {
		<-m.handing
		return nil, fmt.Errorf("mount %s: not handed over: %w", m.dir, err)
	}
	return handed, nil
}

// part implements Handover. It must not be called concurrently.
func (m *Mount) part(ctx context.Context) (*Handed, error) {
	m.mu.Lock()
	stopped := m.stopped
	m.mu.Unlock()
	m.server.suspend()
	m.fs.Interrupt()
	if err := m.server.conn.pause(ctx, stopped); err != nil {
		if errors.Is(err, ctx.Err()) {
			err = ErrBusy
		}
		return nil, errors.Join(err, m.serveOn())
	}
	select {
	case <-m.done:
		return nil, errEnded
	default:
	}
	handed, err := m.pack()
	if err != nil {
		m.fs.Resume()
		return nil, errors.Join(err, m.serveOn())
	}
	return handed, nil
}

func (m *Mount) pack() (*Handed, error) {
	packed, err := m.state(m.fs.Suspend, m.server.postponed)
	if err != nil {
		return nil, err
	}
	file, err := m.server.conn.duplicate()
	return &Handed{File: file, State: packed}, err
}

// serveOn continues to serve after a suspension, and begins the postponed requests again. The caller resumes
// the client.
func (m *Mount) serveOn() error {
	m.fs.Continue()
	err := m.server.conn.resume()
	m.serve(m.server.endSuspension())
	return err
}

// TakeBack undoes Handover, when no successor has taken the mount or the successor has ended. begun means
// that the successor may have begun to serve. Then the kernel sends the successor's requests again, if it can
// do so (Linux 6.9); otherwise they are never answered: ErrNoResend.
func (m *Mount) TakeBack(begun bool) error {
	defer func() { <-m.handing }()
	m.fs.Resume()
	var err error
	if begun {
		if err = m.server.resend(); err == nil {
			m.server.dropPostponed() // the kernel also repeats these requests
		}
	}
	if err = errors.Join(err, m.serveOn()); err != nil {
		return fmt.Errorf("mount %s: taken back: %w", m.dir, err)
	}
	return nil
}

// Leave ends the participation of this process in a mount that a successor serves: Wait returns, and Unmount
// does nothing.
func (m *Mount) Leave() {
	m.gone.Store(true)
	m.end()
}

// Left reports whether a successor serves the mount.
func (m *Mount) Left() bool { return m.gone.Load() }

// Take continues a mount of another process. The mount point and the mounted directory are those of the
// state; Take ignores those of cfg. If Take fails, the mount is unchanged: the caller closes handed, and the
// predecessor continues to serve.
func Take(cfg Config, handed *Handed) (*Mount, error) {
	s, err := DecodeState(handed.State)
	if err != nil {
		return nil, err
	}
	if err := cfg.FileSystem.Adopt(s); err != nil {
		return nil, err
	}
	cfg.Dir, cfg.Root = s.Dir, s.Root
	m, err := inherit(&cfg, &s.Terms, handed.File)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", s.Dir, err)
	}
	if handed.link != nil {
		if err := handed.link.commit(); err != nil {
			return nil, errors.Join(fmt.Errorf("mount %s: the one that serves it does not let it go: %w", s.Dir, err), m.server.conn.file.Close())
		}
	}
	if err := m.begin(s, handed); err != nil {
		cfg.Logger.Warn("the mount was taken over, but", "dir", s.Dir, "error", err)
	}
	return m, handed.File.Close()
}

// inherit makes a Mount from a handed mount. It serves nothing yet.
func inherit(cfg *Config, before *Terms, file *os.File) (*Mount, error) {
	conn, err := sameConnection(file)
	if err != nil {
		return nil, err
	}
	m := newMount(cfg, conn)
	m.server.terms, err = m.server.agree(before.Request)
	if err == nil && !bytes.Equal(m.server.terms.Reply, before.Reply) {
		err = errors.New("this version wants other terms of the kernel than the one that mounted: unmount, and mount with this version")
	}
	if err != nil {
		return nil, errors.Join(err, conn.file.Close())
	}
	return m, nil
}

// begin serves a mount that the predecessor has released.
func (m *Mount) begin(s *State, handed *Handed) error {
	var postponed []*request
	for _, raw := range s.Requests {
		postponed = append(postponed, &request{raw: raw})
	}
	m.fs.Continue()
	err := m.server.conn.resume()
	if s.Running {
		err = errors.Join(err, m.server.resend())
	}
	m.serve(postponed)
	if handed.link != nil {
		err = errors.Join(err, handed.link.confirm())
	}
	return err
}
