package registry

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// MaxInfo is the size of the largest Presence.Info, in bytes.
const MaxInfo = 16 << 10

// Presence is a server's description of itself while it is live.
type Presence struct {
	Name string // of the server
	// Instance distinguishes a server from another one of the same name: random, and kept with the server's
	// data, so that a restarted process has the name at once. 1 to 128 bytes without control characters.
	Instance string
	Info     []byte // for others to read, such as addresses: at most MaxInfo
}

func (p *Presence) validate() error {
	if err := validateName("server", p.Name); err != nil {
		return err
	}
	if err := validateName("instance", p.Instance); err != nil {
		return err
	}
	if len(p.Info) > MaxInfo {
		return fmt.Errorf("registry: server %q has %d bytes to say of itself: give at most %d", p.Name, len(p.Info), MaxInfo)
	}
	return nil
}

// encode returns the value of the key: readable with etcdctl if Info is.
func (p *Presence) encode() string { return p.Instance + "\n" + string(p.Info) }

// decodePresence splits the value of a key, which any process may have written.
func decodePresence(name string, value []byte) (Presence, error) {
	instance, info, found := bytes.Cut(value, []byte("\n"))
	p := Presence{Name: name, Instance: string(instance), Info: info}
	if !found {
		return Presence{}, fmt.Errorf("registry: what is said of server %q has no line with its instance: remove its key", name)
	}
	return p, p.validate()
}

func (r *Etcd) liveKey(name string) string { return r.key("live/") + name }

// Alive returns the live servers, by name. It leaves out, and logs, keys that no server can have written.
func (r *Etcd) Alive(ctx context.Context) ([]Presence, error) {
	var response *clientv3.GetResponse
	err := r.do(ctx, fmt.Sprintf("list the live servers of cluster %q", r.config.Cluster), func(ctx context.Context) (err error) {
		response, err = r.client.Get(ctx, r.liveKey(""), clientv3.WithPrefix())
		return err
	})
	if err != nil {
		return nil, err
	}
	return r.presences(response.Kvs), nil
}

func (r *Etcd) presences(pairs []*mvccpb.KeyValue) []Presence {
	all := make([]Presence, 0, len(pairs))
	for _, pair := range pairs {
		p, err := decodePresence(strings.TrimPrefix(string(pair.Key), r.liveKey("")), pair.Value)
		if err != nil {
			r.logger.Warn("a key in etcd is invalid", "key", string(pair.Key), "error", err)
			continue
		}
		all = append(all, p)
	}
	return all
}

// Claim announces a server once, for Config.Lease. It fails with ErrTaken if another instance has the name.
// Call it before a server begins; Announce then continues with the name.
func (r *Etcd) Claim(ctx context.Context, p Presence) error {
	if err := p.validate(); err != nil {
		return err
	}
	_, err := r.claim(ctx, p)
	return err
}

// claim takes the name with a new lease. Leases of failed attempts expire.
func (r *Etcd) claim(ctx context.Context, p Presence) (clientv3.LeaseID, error) {
	doing := fmt.Sprintf("announce server %q", p.Name)
	for {
		seen, err := r.holder(ctx, doing, p)
		if err != nil {
			return 0, err
		}
		var lease *clientv3.LeaseGrantResponse
		err = r.do(ctx, doing, func(ctx context.Context) (err error) {
			lease, err = r.client.Grant(ctx, int64(r.config.Lease.Seconds()))
			return err
		})
		if err != nil {
			return 0, err
		}
		response, err := r.commit(ctx, doing, transaction{
			conditions: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(r.liveKey(p.Name)), "=", seen.revision)},
			then:       []clientv3.Op{clientv3.OpPut(r.liveKey(p.Name), p.encode(), clientv3.WithLease(lease.ID))},
		})
		if err != nil {
			return 0, err
		}
		if response.Succeeded {
			return lease.ID, nil
		}
	}
}

// held is the state of a name: free if revision is 0.
type held struct {
	revision int64
	lease    clientv3.LeaseID
}

// holder returns the state of the name of p: ErrTaken if another instance has it.
func (r *Etcd) holder(ctx context.Context, doing string, p Presence) (held, error) {
	var response *clientv3.GetResponse
	err := r.do(ctx, doing, func(ctx context.Context) (err error) {
		response, err = r.client.Get(ctx, r.liveKey(p.Name))
		return err
	})
	if err != nil || len(response.Kvs) == 0 {
		return held{}, err
	}
	found := response.Kvs[0]
	other, err := decodePresence(p.Name, found.Value)
	switch {
	case err != nil: // invalid: it is overwritten
		r.logger.Warn("a key in etcd is invalid", "key", string(found.Key), "error", err)
	case other.Instance != p.Instance:
		return held{}, fmt.Errorf("registry: %s: %w: instance %s has it, and says %.200q: stop that one, or give this server another name; if it is dead, its lease ends within %v",
			doing, ErrTaken, other.Instance, other.Info, r.config.Lease)
	}
	return held{revision: found.ModRevision, lease: clientv3.LeaseID(found.Lease)}, nil
}
