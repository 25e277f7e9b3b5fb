package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/durable"
)

// LocalFile is the name of the file in the data directory of a cluster in one process.
const LocalFile = "registry.json"

// Local is a Registry for servers in one process. A file holds the data that etcd would hold of one cluster.
type Local struct {
	path string

	mu      sync.Mutex
	kept    localFile            // GUARDED_BY mu; the content of the file
	live    map[string]localHold // GUARDED_BY mu; by the server's name
	changed chan struct{}        // GUARDED_BY mu; closed when the description changes
}

// localFile is the content of the file, as JSON.
type localFile struct {
	Version     uint64               `json:"version"` // of the description; 0: there is none
	Description string               `json:"description"`
	Started     map[string]time.Time `json:"started"` // by the name given to Mark
	Notes       map[string]string    `json:"notes,omitempty"`
}

// localHold is a name that a server has.
type localHold struct {
	presence Presence
	until    time.Time     // of a Claim; zero: as long as it is announced
	lost     chan struct{} // closed when another Announce takes the name; nil: not announced
}

// held reports whether the server counts as live.
func (h *localHold) held(now time.Time) bool { return h.until.IsZero() || now.Before(h.until) }

// OpenLocal reads the file at path. If there is none, there is no cluster yet. Only one Local at a time may
// use a file; its owner ensures this.
func OpenLocal(path string) (*Local, error) {
	l := &Local{path: path, live: map[string]localHold{}, changed: make(chan struct{})}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		l.kept.Started = map[string]time.Time{}
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l.kept); err != nil {
		return nil, fmt.Errorf("registry: %s: %w: is it damaged, or of another version? Restore it from a backup", path, err)
	}
	if (l.kept.Version == 0) != (l.kept.Description == "") || l.kept.Started == nil {
		return nil, fmt.Errorf("registry: %s: it has no whole description: restore it from a backup", path)
	}
	return l, nil
}

// save makes next the content of the file. The caller holds mu.
func (l *Local) save(doing string, next localFile) error {
	text, err := json.MarshalIndent(&next, "", "\t")
	if err == nil {
		err = durable.WriteFile(l.path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("registry: %s: %w: %w", doing, ErrUnavailable, err)
	}
	l.kept = next
	return nil
}

// describe saves a new description and wakes the watchers. The caller holds mu.
func (l *Local) describe(doing string, value []byte) error {
	next := l.kept
	next.Version++
	next.Description = string(value)
	if err := l.save(doing, next); err != nil {
		return err
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// document returns the present description. The caller holds mu.
func (l *Local) document() Document {
	return Document{Value: []byte(l.kept.Description), Version: l.kept.Version}
}

// Bootstrap implements Descriptions.
func (l *Local) Bootstrap(ctx context.Context, value []byte) (current Document, created bool, err error) {
	if err := cmp.Or(ctx.Err(), validateValue(value)); err != nil {
		return Document{}, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept.Version == 0 {
		if err := l.describe("bootstrap the cluster", value); err != nil {
			return Document{}, false, err
		}
		created = true
	}
	return l.document(), created, nil
}

// Load implements Descriptions.
func (l *Local) Load(ctx context.Context) (Document, error) {
	if err := ctx.Err(); err != nil {
		return Document{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept.Version == 0 {
		return Document{}, fmt.Errorf("registry: load the description of the cluster from %s: %w", l.path, ErrNotFound)
	}
	return l.document(), nil
}

// Swap implements Descriptions.
func (l *Local) Swap(ctx context.Context, version uint64, value []byte) (uint64, error) {
	if err := cmp.Or(ctx.Err(), validateValue(value), validateVersion(version)); err != nil {
		return 0, err
	}
	const doing = "change the description of the cluster"
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept.Version != version {
		return 0, fmt.Errorf("registry: %s: version %d is not the present one: %w", doing, version, ErrConflict)
	}
	if err := l.describe(doing, value); err != nil {
		return 0, err
	}
	return l.kept.Version, nil
}

// Watch implements Descriptions.
func (l *Local) Watch(ctx context.Context, show func(Document)) {
	shown := uint64(0)
	for ctx.Err() == nil {
		l.mu.Lock()
		now, changed := l.document(), l.changed
		l.mu.Unlock()
		if now.Version > shown {
			shown = now.Version
			show(now)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Claim implements Presences. The lease is DefaultLease.
func (l *Local) Claim(ctx context.Context, p Presence) error {
	if err := cmp.Or(ctx.Err(), p.validate()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(localHold{presence: p, until: time.Now().Add(DefaultLease)})
}

// take gives a name to another hold, and notifies the present announcer of the name. The caller holds mu.
func (l *Local) take(h localHold) error {
	was, err := l.holder(&h.presence)
	if err != nil {
		return err
	}
	if was.lost != nil {
		close(was.lost)
	}
	l.live[h.presence.Name] = h
	return nil
}

// holder returns the holder of the name of p: ErrTaken if it is another instance. The caller holds mu.
func (l *Local) holder(p *Presence) (localHold, error) {
	was := l.live[p.Name]
	if was.presence.Instance != "" && was.presence.Instance != p.Instance && was.held(time.Now()) {
		return was, fmt.Errorf("registry: announce server %q: %w: instance %s has it, and says %.200q: stop that one, or give this server another name",
			p.Name, ErrTaken, was.presence.Instance, was.presence.Info)
	}
	return was, nil
}

// Announce implements Presences.
func (l *Local) Announce(ctx context.Context, p Presence) error {
	if err := p.validate(); err != nil {
		return err
	}
	lost := make(chan struct{})
	l.mu.Lock()
	err := l.take(localHold{presence: p, lost: lost})
	l.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-lost:
		return fmt.Errorf("registry: keep server %q announced: %w by another server with this instance %s: is there a copy of this server's data?",
			p.Name, ErrTaken, p.Instance)
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live[p.Name].lost == lost {
		delete(l.live, p.Name)
	}
	return nil
}

// Alive implements Presences.
func (l *Local) Alive(ctx context.Context) ([]Presence, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Presence
	for _, h := range l.live {
		if h.held(time.Now()) {
			all = append(all, h.presence)
		}
	}
	slices.SortFunc(all, func(a, b Presence) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Mark implements Marks.
func (l *Local) Mark(ctx context.Context, name string) error {
	if err := cmp.Or(ctx.Err(), validateName("server", name)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, noted := l.kept.Started[name]; noted {
		return nil
	}
	next := l.kept
	next.Started = maps.Clone(next.Started)
	next.Started[name] = time.Now().UTC().Round(time.Second)
	return l.save(fmt.Sprintf("note that server %q was started", name), next)
}

// Marked implements Marks.
func (l *Local) Marked(ctx context.Context, name string) (bool, error) {
	if err := cmp.Or(ctx.Err(), validateName("server", name)); err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, noted := l.kept.Started[name]
	return noted, nil
}

// Note implements Marks.
func (l *Local) Note(ctx context.Context, name string, text []byte) error {
	if err := cmp.Or(ctx.Err(), validateNote(name, text)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept.Notes[name] == string(text) {
		return nil
	}
	next := l.kept
	next.Notes = map[string]string{name: string(text)}
	for other, was := range l.kept.Notes {
		if other != name {
			next.Notes[other] = was
		}
	}
	return l.save(fmt.Sprintf("note the numbers of server %q", name), next)
}

// Noted implements Marks.
func (l *Local) Noted(ctx context.Context, name string) ([]byte, error) {
	if err := cmp.Or(ctx.Err(), validateName("server", name)); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if text, noted := l.kept.Notes[name]; noted {
		return []byte(text), nil
	}
	return nil, nil
}
