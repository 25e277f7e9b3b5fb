package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// OfferHandover lets a successor take the mount through a socket, as long as this process serves the mount.
// It replaces the socket of a dead or former process.
func (m *Mount) OfferHandover(socket string) error {
	// A connecting process finds the old socket or the new one, never none.
	fresh := fmt.Sprintf("%s.%d", socket, os.Getpid())
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: fresh, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("handover: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	if err := os.Rename(fresh, socket); err != nil {
		return errors.Join(err, listener.Close(), os.Remove(fresh))
	}
	own, err := os.Lstat(socket)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	m.background.Go(func() { m.offer(listener) })
	m.background.Go(func() {
		<-m.done
		if now, err := os.Lstat(socket); err == nil && os.SameFile(own, now) && !m.Left() {
			_ = os.Remove(socket) // a successor would find a socket without a listener
		}
		_ = listener.Close()
	})
	return nil
}

// offer serves one successor after the other.
func (m *Mount) offer(listener *net.UnixListener) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return // closed
		}
		handed := make(chan struct{})
		m.background.Go(func() {
			select {
			case <-m.done: // the mount has ended
			case <-handed:
			}
			_ = conn.Close()
		})
		err = m.handTo(&link{conn})
		close(handed)
		select {
		case <-m.done:
			if m.Left() {
				m.logger.Info("another process serves the mount now", "dir", m.dir)
			}
			return
		default:
		}
		if err != nil {
			m.logger.Warn("the mount was not handed over: this process continues to serve it", "dir", m.dir, "error", err)
		}
	}
}

// handTo hands the mount to the process that has connected.
func (m *Mount) handTo(l *link) error {
	if err := l.checkPeer(); err != nil {
		return err
	}
	if err := l.expect(wordHello, wordTime); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	handed, err := m.Handover(ctx)
	if err != nil {
		return errors.Join(err, l.send(wordNo+err.Error()))
	}
	keeper := m.server.keeper.Load()
	begun, err := l.give(handed, keeper.letGo)
	if err != nil {
		err = errors.Join(err, handed.File.Close(), m.TakeBack(begun))
		return errors.Join(err, keeper.holdAgain())
	}
	m.Leave()
	return handed.File.Close()
}

// give hands a mount to the successor. It calls commit before the last point from which the mount can be
// taken back. If give fails with begun set, the successor may have begun to serve the mount, and has ended.
func (l *link) give(handed *Handed, commit func()) (begun bool, err error) {
	memory, err := inMemory(handed.State)
	if err != nil {
		return false, err
	}
	err = errors.Join(l.send(wordState, int(handed.File.Fd()), int(memory.Fd())), memory.Close())
	if err == nil {
		err = l.expect(wordReady, wordTime)
	}
	if err == nil {
		commit()
		err = l.send(wordGo)
	}
	if err != nil {
		return false, err
	}
	return true, l.expect(wordServing, 0)
}
