package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/driver"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// spec is the first line that a child reads.
type spec struct {
	Self        multicast.ProcessID
	Groups      []multicast.Group
	Incarnation uint64
	Address     string // 127.0.0.1:0 at the first start
	Dir         string
	Durability  wal.Durability
	Window      int
	PackDelay   time.Duration
}

// hello is the first line that a child writes. The second line that it reads has the addresses of all.
type hello struct{ Address string }

// order is each further line that a child reads. It answers with a state.
type order struct {
	command
	Profile string // the file for a CPU profile from now on
	Stop    bool   // the profile is complete
}

// Replica is the child: it runs one replica until in ends or the replica cannot go on.
func Replica(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	decoder, encoder := json.NewDecoder(lines), json.NewEncoder(out)
	var s spec
	if err := decoder.Decode(&s); err != nil {
		return fmt.Errorf("what to run: %w", err)
	}
	var mu sync.Mutex
	addresses := map[multicast.ProcessID]string{}
	server, err := transport.Listen(transport.Config{
		Address: s.Address,
		Resolve: func(p multicast.ProcessID) (string, bool) {
			mu.Lock()
			defer mu.Unlock()
			a, ok := addresses[p]
			return a, ok
		},
	})
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }() // the links have ended with the driver
	if err := encoder.Encode(hello{server.Address()}); err != nil {
		return err
	}
	mu.Lock()
	err = decoder.Decode(&addresses)
	mu.Unlock()
	if err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	return s.run(ctx, server, decoder, encoder)
}

// run takes turns and executes orders.
func (s *spec) run(ctx context.Context, server *transport.Server, orders *json.Decoder, answers *json.Encoder) (err error) {
	log, err := wal.Open(filepath.Join(s.Dir, "log"), wal.Options{Durability: s.Durability})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	n, err := s.node(log)
	if err != nil {
		return err
	}
	links, err := server.Endpoint(s.Self).Links(s.Incarnation)
	if err != nil {
		return err
	}
	d := driver.New(s.Self, n, links, log, n.clock)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	obeyed := make(chan error, 1)
	go func() { obeyed <- obey(ctx, d, orders, answers) }()
	select {
	case err = <-ended: // the reader of orders ends with the process
		return err
	case err = <-obeyed:
		cancel()
		return errors.Join(err, <-ended)
	}
}

// node restores the state of the replica.
func (s *spec) node(log *wal.Log) (*node, error) {
	n := &node{self: s.Self, clock: driver.NewSystemClock(), seq: s.Incarnation << 32}
	n.ledger.Senders = map[multicast.ProcessID]*sender{}
	if s.Durability != wal.Memory {
		n.dir, n.sync = s.Dir, s.Durability == wal.Sync
		var err error
		if n.ledger, err = loadLedger(s.Dir); err != nil {
			return nil, err
		}
	}
	n.restored, n.covered = n.ledger.Position, n.ledger.Position
	core, err := primcast.New(primcast.Config{
		Self: s.Self, Groups: s.Groups, Delivered: multicast.UpTo(n.restored), Seed: uint64(s.Self)<<32 | s.Incarnation,
		Window: s.Window, PackDelay: s.PackDelay,
	})
	if err != nil {
		return nil, err
	}
	for record, err := range log.Replay() {
		if err == nil {
			err = core.Replay(record)
		}
		if err != nil {
			return nil, fmt.Errorf("write-ahead log: %w", err)
		}
	}
	n.core = core
	return n, nil
}

// obey answers orders until the input ends.
func obey(ctx context.Context, d *driver.Driver, orders *json.Decoder, answers *json.Encoder) error {
	var profile *os.File
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("orders: %w", err)
		}
		if o.Profile != "" {
			f, err := os.Create(o.Profile)
			if err != nil {
				return err
			}
			if err := pprof.StartCPUProfile(f); err != nil {
				return errors.Join(err, f.Close())
			}
			profile = f
		}
		if o.Stop && profile != nil {
			pprof.StopCPUProfile()
			if err := profile.Close(); err != nil {
				return err
			}
			profile = nil
		}
		request, err := json.Marshal(o.command)
		if err != nil {
			return err
		}
		reply, err := d.Handle(ctx, nil, request)
		if err != nil {
			return err
		}
		if err := answers.Encode(json.RawMessage(reply)); err != nil {
			return err
		}
	}
}
