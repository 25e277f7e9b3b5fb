package registry

import (
	"cmp"
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// MaxValue is the size of the largest description, in bytes. Etcd takes 1.5 MiB in one request.
const MaxValue = 1 << 20

// Document is one version of the cluster's description.
type Document struct {
	Value   []byte
	Version uint64 // grows with each change, in steps of any size
}

func (r *Etcd) document() string { return r.key("spec") }

// Bootstrap makes value the cluster's description if there is none yet, and returns the resulting
// description; created reports whether this call has made it. If it fails with ErrUnavailable, call it again.
func (r *Etcd) Bootstrap(ctx context.Context, value []byte) (current Document, created bool, err error) {
	if err := validateValue(value); err != nil {
		return Document{}, false, err
	}
	response, err := r.commit(ctx, fmt.Sprintf("bootstrap cluster %q", r.config.Cluster), transaction{
		conditions: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(r.document()), "=", 0)},
		then:       []clientv3.Op{clientv3.OpPut(r.document(), string(value))},
		otherwise:  []clientv3.Op{clientv3.OpGet(r.document())},
	})
	switch {
	case err != nil:
		return Document{}, false, err
	case response.Succeeded:
		return Document{Value: value, Version: uint64(response.Header.Revision)}, true, nil
	}
	found := response.Responses[0].GetResponseRange().Kvs[0]
	return Document{Value: found.Value, Version: uint64(found.ModRevision)}, false, nil
}

// Load returns the cluster's description: ErrNotFound if it has none.
func (r *Etcd) Load(ctx context.Context) (Document, error) {
	document, _, err := r.load(ctx)
	return document, err
}

// load also returns the revision of etcd at which it read the description.
func (r *Etcd) load(ctx context.Context) (document Document, revision int64, err error) {
	doing := fmt.Sprintf("load the description of cluster %q", r.config.Cluster)
	var response *clientv3.GetResponse
	err = r.do(ctx, doing, func(ctx context.Context) (err error) {
		response, err = r.client.Get(ctx, r.document())
		return err
	})
	if err != nil {
		return Document{}, 0, err
	}
	if len(response.Kvs) == 0 {
		return Document{}, response.Header.Revision, fmt.Errorf("registry: %s: %w", doing, ErrNotFound)
	}
	found := response.Kvs[0]
	return Document{Value: found.Value, Version: uint64(found.ModRevision)}, response.Header.Revision, nil
}

// Swap makes value the cluster's description if the present one has that version, and returns the new
// version. It fails with ErrConflict if there is a newer description, or none. After ErrUnavailable, Load
// shows whether the swap happened.
func (r *Etcd) Swap(ctx context.Context, version uint64, value []byte) (uint64, error) {
	if err := cmp.Or(validateValue(value), validateVersion(version)); err != nil {
		return 0, err
	}
	doing := fmt.Sprintf("change the description of cluster %q", r.config.Cluster)
	response, err := r.commit(ctx, doing, transaction{
		conditions: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(r.document()), "=", int64(version))},
		then:       []clientv3.Op{clientv3.OpPut(r.document(), string(value))},
	})
	if err != nil {
		return 0, err
	}
	if !response.Succeeded {
		return 0, fmt.Errorf("registry: %s: version %d is not the present one: %w", doing, version, ErrConflict)
	}
	return uint64(response.Header.Revision), nil
}

func validateValue(value []byte) error {
	if len(value) == 0 || len(value) > MaxValue {
		return fmt.Errorf("registry: a description of %d bytes: give 1 to %d", len(value), MaxValue)
	}
	return nil
}

// validateVersion refuses invalid versions: etcd uses 0 for a missing key.
func validateVersion(version uint64) error {
	if version == 0 || int64(version) < 0 {
		return fmt.Errorf("registry: swap version %d: give a version that Load or Bootstrap gave", version)
	}
	return nil
}
