package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// plain is the baseline for blocks: each client appends its bytes to as many plain files as a block has
// copies, one after the other. It has no names, no index and no checksums, so the bytes cannot be found or
// trusted after a crash.
type plain struct {
	sync    bool
	clients []plainClient
}

type plainClient struct {
	files   []*os.File // one for each copy
	written int64      // bytes in each
	begun   int64      // bytes before this round
	buffer  []byte
}

func openPlain(dir string, clients, copies int, sync bool) (_ *plain, err error) {
	p := &plain{sync: sync, clients: make([]plainClient, clients)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for c := range p.clients {
		for i := range copies {
			f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d-%d", c, i)))
			if err != nil {
				return nil, err
			}
			p.clients[c].files = append(p.clients[c].files, f)
		}
	}
	return p, nil
}

// begin starts a round.
func (p *plain) begin() {
	for i := range p.clients {
		p.clients[i].begun = p.clients[i].written
	}
}

// write appends data to each file of a client.
func (p *plain) write(client int, data []byte) error {
	c := &p.clients[client]
	for _, f := range c.files {
		if _, err := f.Write(data); err != nil {
			return err
		}
		if p.sync {
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				return fmt.Errorf("sync %s: %w", f.Name(), err)
			}
		}
	}
	c.written += int64(len(data))
	return nil
}

// read reads the bytes of one write of this round from any file of a client.
func (p *plain) read(client, size int) error {
	c := &p.clients[client]
	if c.buffer == nil {
		c.buffer = make([]byte, size)
	}
	_, err := c.files[rand.IntN(len(c.files))].ReadAt(c.buffer, c.begun+rand.Int64N((c.written-c.begun)/int64(size))*int64(size))
	return err
}

func (p *plain) close() error {
	var errs []error
	for _, c := range p.clients {
		for _, f := range c.files {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
