package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// description is a cluster as a process knows it at some time. It is not changed once made.
type description struct {
	spec    topology.Spec
	cluster *topology.Cluster
	hosts   map[multicast.ProcessID]*topology.Server
	// text is spec as the registry has it, with the signature; nil: nobody has signed it.
	text []byte
}

// describe plans a cluster whose servers have addresses.
func describe(spec topology.Spec) (*description, error) {
	plan, err := spec.Plan()
	if err != nil {
		return nil, err
	}
	for _, s := range plan.Servers {
		if s.Address == "" && s.State != topology.StorageLeft {
			return nil, fmt.Errorf("addresses: server %s has none", s.Name)
		}
	}
	if err := plan.Crowded(); err != nil {
		return nil, err
	}
	return &description{spec: spec, cluster: plan, hosts: plan.Hosts()}, nil
}

// encoded returns the description as the registry has it.
func (d *description) encoded() []byte {
	if d.text != nil {
		return d.text
	}
	return d.spec.YAML()
}

// copySpec gives a copy of the spec that may be changed.
func (d *description) copySpec() topology.Spec {
	spec := d.spec
	spec.Addresses = maps.Clone(spec.Addresses)
	spec.Replaced, spec.StorageChanges = slices.Clone(spec.Replaced), slices.Clone(spec.StorageChanges)
	spec.Revoked = slices.Clone(spec.Revoked)
	return spec
}

// known is the newest description that a process has (D5). Its methods may be called by several goroutines.
type known struct {
	now   atomic.Pointer[description]
	learn sync.Mutex
}

// offer takes d if it is newer, and reports whether it was. What was told before keeps its cluster's
// identity: another one is refused.
func (k *known) offer(d *description) (newer bool, err error) {
	k.learn.Lock()
	defer k.learn.Unlock()
	was := k.now.Load()
	if was != nil && string(was.cluster.Identity()) != string(d.cluster.Identity()) {
		return false, fmt.Errorf("cluster %q was made anew (%s, and was %s): this process belongs to the old one",
			d.spec.Name, d.cluster.Identity(), was.cluster.Identity())
	}
	if was != nil && d.spec.Version <= was.spec.Version {
		return false, nil
	}
	k.now.Store(d)
	return true, nil
}

// resolve gives the address of the server that hosts a process: transport.Config.Resolve.
func (k *known) resolve(p multicast.ProcessID) (string, bool) {
	if s := k.now.Load().hosts[p]; s != nil {
		return s.Address, s.Address != ""
	}
	return "", false
}

// specFile keeps a server's copy of the description in its data directory.
const specFile = "cluster.yaml"

// loadCopy reads the copy in dir; nil if there is none.
func loadCopy(dir string) (*description, error) {
	path := filepath.Join(dir, specFile)
	text, err := durable.ReadCopied(path, func(text []byte) (uint64, error) {
		_, err := readDescription(text)
		return 0, err // a damaged version may be high
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		return readDescription(text)
	}
	return nil, fmt.Errorf("%s: %w: remove it, and its copy: the server fetches it again from the registry", path, err)
}

// readDescription reads the description that a server has kept.
func readDescription(text []byte) (*description, error) {
	spec, err := topology.ParseSpec(text)
	if err != nil {
		return nil, err
	}
	d, err := describe(spec)
	if err == nil {
		d.text = text
	}
	return d, err
}

// saveCopy keeps d in dir.
func saveCopy(dir string, d *description) error {
	return durable.WriteCopied(filepath.Join(dir, specFile), d.encoded())
}
