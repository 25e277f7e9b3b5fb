package region

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// servers asks the region for its servers and returns them. Later requests go to these: first to the known
// ones, in their order, then to the servers that have joined since.
func (r *Remote) servers(ctx context.Context) []multicast.ProcessID {
	known := *r.nodes.Load()
	for _, node := range r.peers.order(known) {
		reply, err := r.peers.call(ctx, node, []byte{byte(opMembers)})
		if err != nil {
			continue
		}
		m, err := decodeMembers(reply)
		if err != nil {
			continue
		}
		nodes := slices.DeleteFunc(slices.Clone(known), func(id multicast.ProcessID) bool { return !m.has(id) })
		for _, s := range m.Servers {
			if !slices.Contains(nodes, s.ID) {
				nodes = append(nodes, s.ID)
			}
		}
		r.nodes.Store(&nodes)
		return nodes
	}
	return known
}

// has reports whether a server is a member, also a leaving one.
func (m *Members) has(id multicast.ProcessID) bool {
	return slices.ContainsFunc(m.Servers, func(s Server) bool { return s.ID == id })
}

// each asks all servers at once, and calls use with each good reply, one after the other. It fails if no
// server answers.
func (r *Remote) each(ctx context.Context, request []byte, use func(reply []byte) error) error {
	type answer struct {
		reply []byte
		err   error
	}
	nodes := r.servers(ctx)
	answers := make(chan answer, len(nodes))
	for _, node := range nodes {
		go func() {
			reply, err := r.peers.call(ctx, node, request)
			answers <- answer{reply, err}
		}()
	}
	var errs []error
	for range nodes {
		a := <-answers
		if a.err == nil {
			a.err = use(a.reply)
		}
		if a.err != nil {
			errs = append(errs, a.err)
		}
	}
	if len(errs) == len(nodes) {
		return errors.Join(errs...)
	}
	return nil
}

// Usage returns the size and the free space of the disks of all servers that answer, in bytes, and the number
// of these servers. A region that keeps r copies has room for an r-th of that. It fails if no server answers.
func (r *Remote) Usage(ctx context.Context) (total, free uint64, servers int, err error) {
	err = r.each(ctx, []byte{byte(opUsage)}, func(reply []byte) error {
		t, f, err := decodeUsage(reply)
		if err == nil {
			total, free, servers = total+t, free+f, servers+1
		}
		return err
	})
	return total, free, servers, err
}

// Sizes returns the length of each block in bytes, 0 if no server that answers has a copy. It fails if no
// server answers.
func (r *Remote) Sizes(ctx context.Context, ids []block.ID) ([]uint32, error) {
	sizes := make([]uint32, 0, len(ids))
	for some := range slices.Chunk(ids, maxSizes) {
		largest := make([]uint32, len(some))
		err := r.each(ctx, encodeSizes(some), func(reply []byte) error {
			theirs, err := decodeSizes(len(some), reply)
			for i, size := range theirs {
				largest[i] = max(largest[i], size)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, largest...)
	}
	return sizes, nil
}

// Holders returns for each block the servers that have a copy of it. The error names the servers that did not
// answer: they may have copies, too.
func (r *Remote) Holders(ctx context.Context, ids []block.ID) ([][]multicast.ProcessID, error) {
	holders := make([][]multicast.ProcessID, len(ids))
	nodes, sizes, err := r.sizesOnAll(ctx, ids)
	for i, node := range nodes {
		for b, size := range sizes[i] {
			if size > 0 {
				holders[b] = append(holders[b], node)
			}
		}
	}
	return holders, err
}

// Lengths returns the length of each block in bytes, 0 if no server that answers has a copy. The error names
// the servers that did not answer: they may have those blocks.
func (r *Remote) Lengths(ctx context.Context, ids []block.ID) ([]uint32, error) {
	lengths := make([]uint32, len(ids))
	_, sizes, err := r.sizesOnAll(ctx, ids)
	for _, theirs := range sizes {
		for b, size := range theirs {
			lengths[b] = max(lengths[b], size)
		}
	}
	return lengths, err
}

// sizesOnAll queries all servers for the lengths of their copies. The error names the servers that did not
// answer; they have no sizes.
func (r *Remote) sizesOnAll(ctx context.Context, ids []block.ID) (nodes []multicast.ProcessID, sizes [][]uint32, err error) {
	nodes = slices.Sorted(slices.Values(r.servers(ctx)))
	errs := make([]error, len(nodes))
	sizes = make([][]uint32, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() { sizes[i], errs[i] = r.sizesOn(ctx, node, ids) })
	}
	asking.Wait()
	return nodes, sizes, errors.Join(errs...)
}

// sizesOn queries one server for the lengths of its copies.
func (r *Remote) sizesOn(ctx context.Context, node multicast.ProcessID, ids []block.ID) (sizes []uint32, err error) {
	for some := range slices.Chunk(ids, maxSizes) {
		reply, err := r.peers.call(ctx, node, encodeSizes(some))
		if err != nil {
			return nil, err
		}
		theirs, err := decodeSizes(len(some), reply)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, theirs...)
	}
	return sizes, nil
}
