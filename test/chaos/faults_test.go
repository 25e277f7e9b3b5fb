package chaos

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/cluster"
	"github.com/globalfs/globalfs/test/wan"
)

// fault is a fault of limited duration.
type fault struct {
	name    string
	begin   func(ctx context.Context) error
	end     func(ctx context.Context) error
	settles bool // its end waits until the cluster is healthy
}

// adversary draws random faults.
type adversary struct {
	cluster *cluster.Cluster
	lab     *wan.Lab
	regions []topology.Region
	rng     *rand.Rand
	clock   bool   // it may step the machine's clock
	clocks  string // the directory with the clock of each server
}

func (a *adversary) server() *cluster.Process {
	names := a.cluster.Names()
	return a.cluster.Servers[names[a.rng.IntN(len(names))]]
}

func (a *adversary) region() topology.Region { return a.regions[a.rng.IntN(len(a.regions))] }

// kinds returns all kinds of faults, those first that a short run must have.
func (a *adversary) kinds() []func() fault {
	kinds := []func() fault{
		a.stepServer(1), a.pause, a.rot, a.rollBack, a.copied, a.stepServer(-1),
		a.kill, a.cutRegion, a.fullDisk, a.loseEtcd, a.killTwo, a.cutServer, a.slow, a.lossy, a.pauseEtcd,
	}
	if a.clock {
		kinds = append(kinds, a.stepClock)
	}
	return kinds
}

// kill ends a server like a crash.
func (a *adversary) kill() fault {
	s := a.server()
	return fault{
		name:  "kill " + s.Name,
		begin: func(context.Context) error { s.Kill(); return nil },
		end:   s.Start,
	}
}

// killTwo kills servers of two regions.
func (a *adversary) killTwo() fault {
	one, two := a.kill(), a.kill()
	for strings.HasPrefix(two.name, one.name[:len(one.name)-1]) {
		two = a.kill()
	}
	return fault{
		name: one.name + " and " + strings.TrimPrefix(two.name, "kill "),
		begin: func(ctx context.Context) error {
			if err := one.begin(ctx); err != nil {
				return err
			}
			return two.begin(ctx)
		},
		end: func(ctx context.Context) error {
			if err := one.end(ctx); err != nil {
				return err
			}
			return two.end(ctx)
		},
	}
}

// pause stops a server with SIGSTOP, which the server cannot detect.
func (a *adversary) pause() fault {
	s := a.server()
	return fault{
		name:  "pause " + s.Name,
		begin: func(context.Context) error { s.Signal(syscall.SIGSTOP); return nil },
		end:   func(context.Context) error { s.Signal(syscall.SIGCONT); return nil },
	}
}

func (a *adversary) cutServer() fault {
	s := a.server()
	return fault{
		name:  "cut " + s.Name,
		begin: func(context.Context) error { return a.lab.Cut(s.Name) },
		end:   func(context.Context) error { return a.lab.Heal(s.Name) },
	}
}

func (a *adversary) cutRegion() fault {
	r := a.region()
	return fault{
		name:  "cut region " + string(r),
		begin: func(context.Context) error { return a.lab.Cut(string(r)) },
		end:   func(context.Context) error { return a.lab.Heal(string(r)) },
	}
}

func (a *adversary) shaped(name string, change func(*wan.Link)) fault {
	return fault{
		name:  name,
		begin: func(context.Context) error { return a.lab.Shape(nil, nil, change) },
		end:   func(context.Context) error { return a.lab.Heal() },
	}
}

func (a *adversary) slow() fault {
	return a.shaped("slow links", func(l *wan.Link) { l.Delay, l.Jitter = 3*l.Delay+10*time.Millisecond, 10*time.Millisecond })
}

func (a *adversary) lossy() fault {
	return a.shaped("lossy links", func(l *wan.Link) { l.Loss = 0.02 })
}

// fullDisk fills the file system of a server.
func (a *adversary) fullDisk() fault {
	s := a.server()
	filler := filepath.Join(a.cluster.DataDir(s.Name), "filler")
	return fault{
		name:  "full disk of " + s.Name,
		begin: func(context.Context) error { return fill(filler) },
		end:   func(context.Context) error { return os.Remove(filler) },
	}
}

// fill writes until there is no space.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; block = block[:len(block)/2] {
		for err == nil {
			_, err = f.Write(block)
		}
		if !isFull(err) {
			return err
		}
		err = nil
	}
	return nil
}

func isFull(err error) bool { return err != nil && strings.Contains(err.Error(), "no space left") }

func (a *adversary) loseEtcd() fault {
	return fault{
		name:  "kill etcd",
		begin: func(context.Context) error { a.cluster.Etcd.Kill(); return nil },
		end:   a.cluster.Etcd.Start,
	}
}

func (a *adversary) pauseEtcd() fault {
	return fault{
		name:  "pause etcd",
		begin: func(context.Context) error { a.cluster.Etcd.Signal(syscall.SIGSTOP); return nil },
		end:   func(context.Context) error { a.cluster.Etcd.Signal(syscall.SIGCONT); return nil },
	}
}
