package hops

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/globalfs/globalfs/bench/memory"
	"github.com/globalfs/globalfs/pkg/fabric"
)

const (
	parent = fabric.NodeID(1)
	child  = fabric.NodeID(2)

	// Each node has both regions. Writes to the first one are answered.
	answered = fabric.RegionID(1)
	silent   = fabric.RegionID(2)

	regionSize = 1 << 20
	patience   = 20 * time.Second
)

// open opens a node whose peer may write.
func open(cfg memory.Config, peer fabric.NodeID) (*memory.Node, fabric.Memory, error) {
	n, err := memory.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	m, err := register(n, answered, peer)
	if err == nil {
		_, err = register(n, silent, peer)
	}
	if err != nil {
		return nil, nil, errors.Join(err, n.Close())
	}
	return n, m, nil
}

func register(n *memory.Node, id fabric.RegionID, peer fabric.NodeID) (fabric.Memory, error) {
	m, err := n.Register(id, regionSize)
	if err != nil {
		return nil, err
	}
	return m, n.Grant(id, peer, fabric.Writable)
}

// Peer answers to writes until its input ends.
func Peer(ctx context.Context, cfg memory.Config, in io.Reader, out io.Writer) error {
	cfg.Self = child
	n, m, err := open(cfg, parent)
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }() // the process ends
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // the parent has ended
	}()
	address, stop, err := serveEchoes(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = stop() }() // the process ends
	if _, err := fmt.Fprintln(out, "ready", address); err != nil {
		return err
	}
	return answer(ctx, n, m)
}

// answer answers to writes until the context ends.
func answer(ctx context.Context, n *memory.Node, m fabric.Memory) error {
	var events fabric.Events
	var word [8]byte
	seen := uint64(0)
	for ctx.Err() == nil {
		n.Wait(50 * time.Millisecond)
		events.Reset()
		n.Poll(&events)
		for _, c := range events.Completions {
			if c.Status != fabric.OK {
				return fmt.Errorf("an answer: %v", c.Status)
			}
		}
		m.Load(0, word[:])
		if v := binary.LittleEndian.Uint64(word[:]); v != seen {
			seen = v
			if err := n.Post(fabric.Op{Token: v, Peer: parent, Region: answered, Data: append([]byte(nil), word[:]...)}); err != nil {
				return err
			}
		}
	}
	return nil
}
