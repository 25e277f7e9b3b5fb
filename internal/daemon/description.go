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

// description is one version of the description of a cluster. It is immutable.
type description struct {
	spec    topology.Spec
	cluster *topology.Cluster
	hosts   map[multicast.ProcessID]*topology.Server
	// text is spec as stored in the registry, with the signature; nil: it is not signed.
	text []byte

	encoding  sync.Once
	forOthers string // result of published
}

// published returns spec for clients and other servers, as YAML and without the revocations. Each client asks
// for it every few seconds.
func (d *description) published() string {
	d.encoding.Do(func() {
		spec := d.spec
		spec.Revoked = nil
		d.forOthers = string(spec.YAML())
	})
	return d.forOthers
}

// describe makes a description. It fails if a server of the cluster has no address.
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

// encoded returns the description as stored in the registry.
func (d *description) encoded() []byte {
	if d.text != nil {
		return d.text
	}
	return d.spec.YAML()
}

// copySpec returns a copy of the spec that the caller may change.
func (d *description) copySpec() topology.Spec {
	spec := d.spec
	spec.Addresses = maps.Clone(spec.Addresses)
	spec.Replaced, spec.StorageChanges = slices.Clone(spec.Replaced), slices.Clone(spec.StorageChanges)
	spec.Revoked, spec.Added = slices.Clone(spec.Revoked), slices.Clone(spec.Added)
	return spec
}

// known is the newest description that a process has (D5). Its methods may be called by several goroutines.
type known struct {
	current atomic.Pointer[description]
	learn   sync.Mutex
}

// offer stores d if it is newer, and reports whether it was. It refuses a description with another identity
// than the stored one.
func (k *known) offer(d *description) (newer bool, err error) {
	k.learn.Lock()
	defer k.learn.Unlock()
	was := k.current.Load()
	if was != nil && string(was.cluster.Identity()) != string(d.cluster.Identity()) {
		return false, fmt.Errorf("cluster %q was made anew (%s, and was %s): this process belongs to the old one",
			d.spec.Name, d.cluster.Identity(), was.cluster.Identity())
	}
	if was != nil && d.spec.Version <= was.spec.Version {
		return false, nil
	}
	k.current.Store(d)
	return true, nil
}

// resolve returns the address of the server that hosts a process: transport.Config.Resolve.
func (k *known) resolve(p multicast.ProcessID) (string, bool) {
	if s := k.current.Load().hosts[p]; s != nil {
		return s.Address, s.Address != ""
	}
	return "", false
}

// specFile is the name of a server's copy of the description in its data directory.
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

// readDescription parses a server's copy of the description.
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

// saveCopy writes d to the copy in dir.
func saveCopy(dir string, d *description) error {
	return durable.WriteCopied(filepath.Join(dir, specFile), d.encoded())
}
