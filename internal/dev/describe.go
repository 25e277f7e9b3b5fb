package dev

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/topology"
)

// defaultName is the name of a cluster without a name in its description.
const defaultName = "dev"

// listeners are the open listeners at the addresses of servers, by name, until the servers take them over.
type listeners map[string]net.Listener

func (l listeners) close() (err error) {
	for _, listener := range l {
		err = errors.Join(err, listener.Close())
	}
	return err
}

// describe updates the description in the registry before any server runs. It makes the cluster if there is
// none, takes over the settings that the user may change, and gives each server an address.
func (c *Cluster) describe(ctx context.Context) (_ topology.Spec, _ listeners, err error) {
	document, was, err := c.described(ctx)
	if err != nil {
		return topology.Spec{}, nil, err
	}
	spec := c.cfg.Spec
	spec.Name = cmp.Or(spec.Name, defaultName)
	wanted := spec.Addresses
	if was == nil {
		spec.Created = time.Now().UTC().Round(0) // to the nanosecond: it distinguishes this cluster from all others
		spec.Owner = topology.Owner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
		spec.Addresses = maps.Clone(wanted)
	} else {
		if err := spec.Adopt(*was); err != nil {
			return topology.Spec{}, nil, fmt.Errorf("%s: %w\nuse the same flags, or another --data-dir", c.cfg.Dir, err)
		}
		spec.Addresses, spec.StorageChanges = maps.Clone(was.Addresses), slices.Clone(spec.StorageChanges)
	}
	open, err := listenAll(&spec, wanted)
	if err != nil {
		return topology.Spec{}, nil, errors.Join(err, open.close())
	}
	if was != nil && bytes.Equal(was.YAML(), spec.YAML()) {
		return spec, open, nil
	}
	spec.Version++
	if was == nil {
		_, _, err = c.registry.Bootstrap(ctx, spec.YAML())
	} else {
		_, err = c.registry.Swap(ctx, document.Version, spec.YAML())
	}
	if err != nil {
		return topology.Spec{}, nil, errors.Join(err, open.close())
	}
	return spec, open, nil
}

// described returns the description in the registry; nil: there is none yet.
func (c *Cluster) described(ctx context.Context) (registry.Document, *topology.Spec, error) {
	document, err := c.registry.Load(ctx)
	if errors.Is(err, registry.ErrNotFound) {
		return document, nil, nil
	}
	if err != nil {
		return document, nil, err
	}
	spec, err := topology.ParseSpec(document.Value)
	if err != nil {
		return document, nil, fmt.Errorf("data directory %s: %w", c.cfg.Dir, err)
	}
	return document, &spec, nil
}

// listenAll listens for each server at the address from the user, or at its last address, or, if another
// process uses that, at a free one. It records the addresses in spec. The caller closes the listeners, also
// after an error.
func listenAll(spec *topology.Spec, wanted map[string]string) (listeners, error) {
	open := listeners{}
	unaddressed := *spec
	unaddressed.Addresses = nil // there is no plan until each server has one
	cluster, err := unaddressed.Plan()
	if err != nil {
		return open, err
	}
	taken := map[string]bool{}
	for _, s := range cluster.Servers {
		taken[cmp.Or(spec.Addresses[s.Name], s.Address)] = true
	}
	for _, s := range cluster.Servers {
		if gone(cluster, &s) {
			continue
		}
		last := cmp.Or(wanted[s.Name], spec.Addresses[s.Name], s.Address)
		l, err := net.Listen("tcp", cmp.Or(last, anyPort))
		if errors.Is(err, syscall.EADDRINUSE) && wanted[s.Name] == "" {
			l, err = listenElsewhere(taken)
		}
		if err != nil {
			return open, fmt.Errorf("address of server %s: %w", s.Name, err)
		}
		open[s.Name] = l
		spec.Relocate(s.Name, l.Addr().String())
	}
	return open, nil
}

// anyPort is the address for a server's first start.
const anyPort = "127.0.0.1:0"

// listenElsewhere listens at an address that no server has ever had, including servers that have left.
func listenElsewhere(taken map[string]bool) (net.Listener, error) {
	for {
		l, err := net.Listen("tcp", anyPort)
		if err != nil || !taken[l.Addr().String()] {
			return l, err
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
}

// gone reports whether a server has left the cluster and has no replicas.
func gone(cluster *topology.Cluster, s *topology.Server) bool {
	return s.State == topology.StorageLeft && len(cluster.ReplicasOn(s.Name)) == 0
}
