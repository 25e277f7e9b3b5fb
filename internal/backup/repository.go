package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
)

// Storage is where a repository is. Its methods may be called concurrently. Names are paths with slashes.
type Storage interface {
	// Put stores an object, all of it or nothing.
	Put(ctx context.Context, name string, data []byte) error
	// Get returns an object: an error that is fs.ErrNotExist if there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	Has(ctx context.Context, name string) (bool, error)
	// List returns the names below a directory, in their order.
	List(ctx context.Context, dir string) ([]string, error)
}

// Repository is a place with backups.
type Repository struct {
	storage Storage
	where   string
}

// format of the repository.
const format = 1

// Manifest describes a backup.
type Manifest struct {
	Format     int         `json:"format"`
	ID         string      `json:"id"`
	Number     uint64      `json:"number"` // that the partitions know
	Time       time.Time   `json:"time"`
	Cluster    string      `json:"cluster"`
	Identity   string      `json:"identity"` // of the cluster
	Build      string      `json:"build"`    // version of the program
	Partitions []Partition `json:"partitions"`
	BlockCount uint64      `json:"block_count"`
	NewBytes   uint64      `json:"new_bytes"` // that this backup has added to the repository
	Bytes      uint64      `json:"bytes"`     // of the metadata
	// Lost are the blocks of the files without a copy, in a backup of a recovered cluster.
	Lost []string `json:"lost_blocks,omitempty"`
}

// Partition is the state of a partition in a backup.
type Partition struct {
	ID     uint16   `json:"id"`
	Path   string   `json:"path"`
	Keys   uint64   `json:"keys"`
	Bytes  uint64   `json:"bytes"`
	Chunks []string `json:"chunks"` // hashes, in the order of their keys
}

// sealed is a stored manifest.
type sealed struct {
	Manifest json.RawMessage `json:"manifest"`
	SHA256   string          `json:"sha256"` // of the bytes of Manifest
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func chunkName(hash string) string  { return "chunks/" + hash[:2] + "/" + hash }
func manifestName(id string) string { return "backups/" + id + ".json" }

func blockName(id posix.BlockID) string {
	name := hex.EncodeToString(id[:])
	return "blocks/" + name[len(name)-2:] + "/" + name
}

// List returns the backups of the repository, the oldest first, and the errors of those with unreadable
// manifests.
func (r *Repository) List(ctx context.Context) (all []Manifest, unreadable []error, err error) {
	names, err := r.storage.List(ctx, "backups")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		id, isManifest := strings.CutSuffix(strings.TrimPrefix(name, "backups/"), ".json")
		if !isManifest {
			continue
		}
		m, err := r.manifest(ctx, id)
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err != nil:
			unreadable = append(unreadable, err)
		default:
			all = append(all, *m)
		}
	}
	slices.SortFunc(all, func(a, b Manifest) int { return a.Time.Compare(b.Time) })
	return all, unreadable, nil
}

// Find returns the backup with an id; empty: the newest one with a readable manifest.
func (r *Repository) Find(ctx context.Context, id string) (*Manifest, error) {
	if id != "" {
		if strings.ContainsAny(id, "/\\") {
			return nil, fmt.Errorf("backup %q: not an id: 'globalfs backup list' shows the ids", id)
		}
		return r.manifest(ctx, id)
	}
	all, unreadable, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		if len(unreadable) > 0 {
			return nil, errors.Join(unreadable...)
		}
		return nil, fmt.Errorf("%s: no backup is complete there", r.where)
	}
	return &all[len(all)-1], nil
}

func (r *Repository) manifest(ctx context.Context, id string) (*Manifest, error) {
	b, err := r.storage.Get(ctx, manifestName(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no backup %q: 'globalfs backup list' shows the ids", r.where, id)
	}
	if err != nil {
		return nil, err
	}
	var s sealed
	var m Manifest
	if err := json.Unmarshal(b, &s); err != nil || hashOf(s.Manifest) != s.SHA256 {
		return nil, fmt.Errorf("%s: %s is damaged: the checksum is wrong; use another backup", r.where, manifestName(id))
	}
	if err := json.Unmarshal(s.Manifest, &m); err != nil || m.Format != format {
		return nil, fmt.Errorf("%s: backup %s has format %d, and this version reads format %d: use the version that made it", r.where, id, m.Format, format)
	}
	for _, p := range m.Partitions {
		for _, hash := range p.Chunks {
			if len(hash) != 2*sha256.Size {
				return nil, fmt.Errorf("%s: %s is damaged: %q names no chunk", r.where, manifestName(id), hash)
			}
		}
	}
	return &m, nil
}

// putManifest completes a backup.
func (r *Repository) putManifest(ctx context.Context, m *Manifest) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	b, err = json.Marshal(sealed{b, hashOf(b)})
	if err != nil {
		return err
	}
	return r.storage.Put(ctx, manifestName(m.ID), b)
}

// putChunk stores a chunk unless it is there, and returns its hash and the bytes that were added. A chunk
// that is there and damaged is replaced.
func (r *Repository) putChunk(ctx context.Context, data []byte) (hash string, added uint64, err error) {
	hash = hashOf(data)
	stored, err := r.storage.Get(ctx, chunkName(hash))
	switch {
	case err == nil && hashOf(stored) == hash:
		return hash, 0, nil
	case ctx.Err() != nil:
		return hash, 0, ctx.Err()
	}
	// A chunk that cannot be read is missing or damaged. If the storage does not answer, Put fails, too.
	return hash, uint64(len(data)), r.storage.Put(ctx, chunkName(hash), data)
}

func (r *Repository) chunk(ctx context.Context, hash string) ([]byte, error) {
	b, err := r.storage.Get(ctx, chunkName(hash))
	if err == nil && hashOf(b) != hash {
		err = fmt.Errorf("%s: %s is damaged: the checksum is wrong; use another backup", r.where, chunkName(hash))
	}
	return b, err
}

// putBlock stores a block.
func (r *Repository) putBlock(ctx context.Context, id posix.BlockID, data []byte) error {
	sum := sha256.Sum256(data)
	return r.storage.Put(ctx, blockName(id), append(sum[:], data...))
}

// hasBlock reports whether a block is stored, and can be read.
func (r *Repository) hasBlock(ctx context.Context, id posix.BlockID) (bool, error) {
	if has, err := r.storage.Has(ctx, blockName(id)); !has || err != nil {
		return false, err
	}
	_, err := r.block(ctx, id)
	return err == nil, ctx.Err()
}

func (r *Repository) block(ctx context.Context, id posix.BlockID) ([]byte, error) {
	b, err := r.storage.Get(ctx, blockName(id))
	if err != nil {
		return nil, err
	}
	if len(b) <= sha256.Size || sha256.Sum256(b[sha256.Size:]) != [sha256.Size]byte(b) {
		return nil, fmt.Errorf("%s: %s is damaged: the checksum is wrong", r.where, blockName(id))
	}
	return b[sha256.Size:], nil
}
