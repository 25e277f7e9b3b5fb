package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/bubble"
)

// player does random things to a few names in all partitions.
type player struct {
	*client.Client
	random *rand.Rand
	dirs   []posix.Ino // that were seen; some are gone
	files  []posix.Ino
	used   []posix.Ino // by the last move
}

func (p *player) any(of []posix.Ino) posix.Ino {
	ino := of[p.random.IntN(len(of))]
	p.used = append(p.used, ino)
	return ino
}

func (p *player) file() posix.Ino { return p.any(p.files) }

func (p *player) dir() posix.Ino { return p.any(p.dirs) }

func (p *player) name() client.Name { return at(p.dir(), string(rune('a'+p.random.IntN(3)))) }

// usedGone reports whether an inode of the last move is gone, which is for ever.
func (p *player) usedGone(ctx context.Context) bool {
	return slices.ContainsFunc(p.used, func(ino posix.Ino) bool {
		a, err := p.GetAttr(ctx, ino)
		return err == posix.ESTALE || err == nil && a.Nlink == 0
	})
}

// move does one thing.
func (p *player) move(ctx context.Context) error {
	p.used = p.used[:0]
	switch p.random.IntN(12) {
	case 0, 1:
		a, err := p.Mkdir(ctx, root, p.name(), 0o755)
		if err == nil {
			p.dirs = append(p.dirs, a.Ino)
		}
		return err
	case 2, 3:
		a, err := p.Create(ctx, root, p.name(), 0o644, 0)
		if a.Ino != 0 { // may be unlinked before it is open
			p.used = append(p.used, a.Ino)
		}
		if err == nil {
			p.files = append(p.files, a.Ino)
			p.Release(a.Ino)
		}
		return err
	case 4, 5:
		flags := []uint32{0, 0, 0, meta.RenameNoReplace, meta.RenameExchange}[p.random.IntN(5)]
		from, to := p.name(), p.name()
		if p.random.IntN(2) == 0 { // as a kernel does before
			_, _ = p.Lookup(ctx, from.Dir, from.Name)
			_, _ = p.Lookup(ctx, to.Dir, to.Name)
		}
		return p.Rename(ctx, root, from, to, flags)
	case 6:
		return p.Unlink(ctx, root, p.name())
	case 7:
		return p.Rmdir(ctx, root, p.name())
	case 8:
		_, err := p.Link(ctx, root, p.file(), p.name())
		return err
	case 9:
		_, err := p.Client.Write(ctx, root, client.Write{Ino: p.file(), Data: []byte("x"), Append: true})
		return err
	case 10:
		ino := p.file()
		if p.random.IntN(2) == 0 {
			ino = p.dir()
		}
		_, err := p.Move(ctx, ino, uint16(p.random.IntN(4)))
		return err
	}
	region := []topology.Region{"", west, east, ireland, client.Global}[p.random.IntN(5)]
	return p.Place(ctx, root, p.dir(), client.Placement{Region: region})
}

// Under any concurrent operations of clients, each client gets an answer that POSIX allows and the tree stays
// sound, in all partitions together and equal at all replicas.
func TestRandomOperations(t *testing.T) {
	allowed := []error{
		nil, posix.ENOENT, posix.EEXIST, posix.ENOTDIR, posix.EISDIR, posix.ENOTEMPTY, posix.EINVAL, posix.EBUSY,
		posix.ESTALE, posix.EPERM,
	}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				n := clienttest.New(t, spec, lease)
				n.Delay(time.Duration(seed) * 20 * time.Millisecond)
				first := n.Client(t, west)
				var dirs, files []posix.Ino
				for partition := range uint16(4) {
					dirs = append(dirs, mkdir(t, first, local(n, partition), "dir"))
					files = append(files, create(t, first, local(n, partition), "file").Ino)
				}
				stop := harass(n, rand.New(rand.NewPCG(seed, 99)), seed%2 == 0)
				var all sync.WaitGroup
				for i, region := range spec.Regions {
					cfg := n.Config(region)
					cfg.Linearizable = seed%4 == 3
					c, err := client.New(cfg)
					require.NoError(t, err)
					defer c.Close()
					p := &player{
						Client: c, random: rand.New(rand.NewPCG(seed, uint64(i))),
						dirs: slices.Clone(dirs), files: slices.Clone(files),
					}
					p.Observe(first.Proofs())
					all.Go(func() {
						for range 60 {
							err := p.move(t.Context())
							require.Contains(t, allowed, err)
							require.True(t, !errors.Is(err, posix.ESTALE) || p.usedGone(t.Context()), "%v", p.used)
						}
					})
				}
				all.Wait()
				stop()
				n.Check(t)
			})
		})
	}
}

// harass gives one replica after the other a fault for a while, until it is stopped.
func harass(n *clienttest.Network, random *rand.Rand, really bool) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for really {
			victim := n.Processes(uint16(random.IntN(4)), west)[random.IntN(3)]
			n.Fail(clienttest.Fault(1+random.IntN(5)), victim)
			select {
			case <-time.After(time.Duration(random.IntN(3000)) * time.Millisecond): // fake time
			case <-ended:
				really = false
			}
			n.Fail(clienttest.None, victim)
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}
