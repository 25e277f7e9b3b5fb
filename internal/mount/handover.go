package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/globalfs/globalfs/internal/client"
)

// Handed is a mount on its way from one process to the next.
type Handed struct {
	File  *os.File // the open /dev/fuse
	State []byte

	link *link // to the predecessor; nil: there is none that would take it back
}

// ErrBusy says that a mount cannot be handed over now.
var ErrBusy = errors.New("requests are under way that change something, and the cluster does not answer: try again when it can be reached")

// Client gives the state that the client of who takes the mount is to resume (client.Config.Resume).
func (h *Handed) Client() (*client.State, error) {
	s, err := decodeState(h.State)
	if err != nil {
		return nil, err
	}
	return client.DecodeState(s.Client)
}

// Dir gives where the mount is.
func (h *Handed) Dir() (string, error) {
	s, err := decodeState(h.State)
	if err != nil {
		return "", err
	}
	return s.Dir, nil
}

// Close gives up a mount that was not taken: a predecessor goes on to serve it.
func (h *Handed) Close() error {
	err := h.File.Close()
	if h.link != nil {
		err = errors.Join(err, h.link.Close())
	}
	return err
}

// Handover stops serving, and gives what another process needs to go on. Programs see nothing of it: their requests wait in the
// kernel. What only reads, and who waits for a lock, is begun anew by the successor; what changes something is awaited, until ctx
// ends: then the mount is served on and the error is ErrBusy. The client is suspended; who has it for other things stops them before.
// TakeBack or Leave must follow. The caller closes what it is given.
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

// part is Handover by one at a time.
func (m *Mount) part(ctx context.Context) (*Handed, error) {
	m.mu.Lock()
	stopped := m.stopped
	m.mu.Unlock()
	m.server.suspend()
	m.fs.waits.suspend()
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
	of := m.fs.client.Suspend()
	m.fs.locks.background.Wait()
	handed, err := m.pack(of)
	if err != nil {
		m.fs.client.Resume()
		return nil, errors.Join(err, m.serveOn())
	}
	return handed, nil
}

func (m *Mount) pack(of *client.State) (*Handed, error) {
	packed, err := m.state(of, m.server.left)
	if err != nil {
		return nil, err
	}
	file, err := m.server.conn.duplicate()
	return &Handed{File: file, State: packed}, err
}

// serveOn undoes the suspension, but for the client's. What was left is begun anew.
func (m *Mount) serveOn() error {
	m.fs.waits.goOn()
	m.fs.endLeft()
	err := m.server.conn.resume()
	m.serve(m.server.goOn())
	return err
}

// TakeBack undoes Handover, when no successor has taken the mount or it has ended. begun: it may have begun to serve. Then what it
// had read is sent again by the kernel, if that can do so (Linux 6.9); otherwise it is answered never: ErrNoResend.
func (m *Mount) TakeBack(begun bool) error {
	defer func() { <-m.handing }()
	m.fs.client.Resume()
	var err error
	if begun {
		if err = m.server.resend(); err == nil {
			m.server.dropLeft() // it comes again too
		}
	}
	if err = errors.Join(err, m.serveOn()); err != nil {
		return fmt.Errorf("mount %s: taken back: %w", m.dir, err)
	}
	return nil
}

// Leave ends this process's part in a mount that a successor serves: Wait returns, and Unmount does nothing.
func (m *Mount) Leave() {
	m.gone.Store(true)
	m.end()
}

// Left reports whether a successor serves the mount.
func (m *Mount) Left() bool { return m.gone.Load() }

// ErrNoResend says that requests which a dead process had read hang until the mount is aborted.
var ErrNoResend = errors.New("the kernel does not send again what was read (Linux 6.9 does): programs may hang until the mount is unmounted by 'umount -f'")

// resend makes the kernel send again, under another unique, all that was read and not answered, by whomever. Nobody may be reading.
func (s *server) resend() error {
	if !s.terms.resends() {
		return ErrNoResend
	}
	if err := s.conn.resend(); err != nil {
		return errors.Join(ErrNoResend, err)
	}
	return nil
}

// Take goes on with a mount that another process served. cfg's client was made to resume Handed.Client; Dir and Options are those
// of the mount. If it fails nothing has happened to the mount: the caller closes handed, and the predecessor goes on to serve.
func Take(cfg Config, handed *Handed) (*Mount, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s, err := decodeState(handed.State)
	if err != nil {
		return nil, err
	}
	if err := reach(cfg.Client, s.Dir, s.Root); err != nil {
		return nil, err
	}
	m, err := inherit(&cfg, s, handed.File)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", s.Dir, err)
	}
	if handed.link != nil {
		if err := handed.link.commit(); err != nil {
			return nil, errors.Join(fmt.Errorf("mount %s: the one that serves it does not let it go: %w", s.Dir, err), m.server.conn.file.Close())
		}
	}
	var left []*request
	for _, raw := range s.Requests {
		left = append(left, &request{raw: raw})
	}
	m.fs.endLeft()
	err = m.server.conn.resume()
	if s.Running {
		err = errors.Join(err, m.server.resend())
	}
	m.serve(left)
	if handed.link != nil {
		err = errors.Join(err, handed.link.confirm())
	}
	if err != nil {
		cfg.Logger.Warn("the mount was taken over, but", "dir", s.Dir, "error", err)
	}
	return m, handed.File.Close()
}

// inherit makes a mount of what was handed over, which serves nothing yet.
func inherit(cfg *Config, s *state, file *os.File) (*Mount, error) {
	conn, err := sameConnection(file)
	if err != nil {
		return nil, err
	}
	m := newMount(cfg, s.Dir, s.Root, conn)
	m.server.terms, err = m.server.agree(s.Terms.Asked)
	if err == nil && !bytes.Equal(m.server.terms.Answered, s.Terms.Answered) {
		err = errors.New("this version wants other terms of the kernel than the one that mounted: unmount, and mount with this version")
	}
	if err != nil {
		return nil, errors.Join(err, conn.file.Close())
	}
	m.fs.adopt(s)
	return m, nil
}
