package registry

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func (r *Etcd) markKey(name string) string { return r.key("started/") + name }

// Mark records permanently that the server of that name has been started once. Repeated calls change nothing.
func (r *Etcd) Mark(ctx context.Context, name string) error {
	if err := validateName("server", name); err != nil {
		return err
	}
	_, err := r.commit(ctx, fmt.Sprintf("note that server %q was started", name), transaction{
		conditions: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(r.markKey(name)), "=", 0)},
		then:       []clientv3.Op{clientv3.OpPut(r.markKey(name), time.Now().UTC().Format(time.RFC3339))},
	})
	return err
}

// Marked reports whether the server of that name has been started before: if its disk is empty, the server
// has lost its data.
func (r *Etcd) Marked(ctx context.Context, name string) (bool, error) {
	if err := validateName("server", name); err != nil {
		return false, err
	}
	marked := false
	err := r.do(ctx, fmt.Sprintf("ask whether server %q was started before", name), func(ctx context.Context) error {
		response, err := r.client.Get(ctx, r.markKey(name), clientv3.WithCountOnly())
		marked = err == nil && response.Count > 0
		return err
	})
	return marked, err
}

// MaxNote is the size of the largest note, in bytes.
const MaxNote = 64 << 10

func validateNote(name string, text []byte) error {
	if len(text) > MaxNote {
		return fmt.Errorf("registry: note of %q: %d bytes, at most %d", name, len(text), MaxNote)
	}
	return validateName("server", name)
}

func (r *Etcd) noteKey(name string) string { return r.key("numbers/") + name }

// Note implements Marks.
func (r *Etcd) Note(ctx context.Context, name string, text []byte) error {
	if err := validateNote(name, text); err != nil {
		return err
	}
	return r.do(ctx, fmt.Sprintf("note the numbers of server %q", name), func(ctx context.Context) error {
		_, err := r.client.Put(ctx, r.noteKey(name), string(text))
		return err
	})
}

// Noted implements Marks.
func (r *Etcd) Noted(ctx context.Context, name string) (text []byte, err error) {
	if err := validateName("server", name); err != nil {
		return nil, err
	}
	err = r.do(ctx, fmt.Sprintf("read the numbers of server %q", name), func(ctx context.Context) error {
		response, err := r.client.Get(ctx, r.noteKey(name))
		if err == nil && len(response.Kvs) > 0 {
			text = response.Kvs[0].Value
		}
		return err
	})
	return text, err
}

// Remove deletes all keys of the cluster in etcd. It fails with ErrLive, and deletes nothing, if servers are
// live, and with ErrNotFound if there are no keys.
func (r *Etcd) Remove(ctx context.Context) error {
	doing := fmt.Sprintf("remove cluster %q", r.config.Cluster)
	response, err := r.commit(ctx, doing, transaction{
		// true of all keys under live/ only if there are none
		conditions: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(r.liveKey("")), "=", 0).WithPrefix()},
		then:       []clientv3.Op{clientv3.OpDelete(r.key(""), clientv3.WithPrefix())},
		otherwise:  []clientv3.Op{clientv3.OpGet(r.liveKey(""), clientv3.WithPrefix(), clientv3.WithKeysOnly())},
	})
	switch {
	case err != nil:
		return err
	case !response.Succeeded:
		var names []string
		for _, pair := range response.Responses[0].GetResponseRange().Kvs {
			names = append(names, strings.TrimPrefix(string(pair.Key), r.liveKey("")))
		}
		return fmt.Errorf("registry: %s: %w: stop %s; a server that died counts as live for its lease", doing, ErrLive, strings.Join(names, ", "))
	case response.Responses[0].GetResponseDeleteRange().Deleted == 0:
		return fmt.Errorf("registry: %s: %w: etcd at %s has nothing of it", doing, ErrNotFound, strings.Join(r.config.Endpoints, ", "))
	}
	return nil
}
