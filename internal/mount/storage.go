package mount

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// XattrStorage is an attribute of any directory: the storage servers of all regions as JSON, a list of StorageRegion; none if the
// blocks are in object storage. Setting it to a StorageChange changes who they are. Only root, and the user that this process runs
// as, may: EPERM.
const XattrStorage = "globalfs.storage"

// StorageChange asks for a new storage server in a region, or for one to leave.
type StorageChange struct {
	Join  topology.Region `json:"join,omitempty"`
	Leave string          `json:"leave,omitempty"`
}

// StorageRegion is the storage ring of a region.
type StorageRegion struct {
	Region  topology.Region `json:"region"`
	Copies  int             `json:"copies"` // of each block
	Version uint64          `json:"version"`
	Servers []StorageServer `json:"servers"`
}

// StorageServer is one server of a ring.
type StorageServer struct {
	Name       string         `json:"name"`
	Datacenter string         `json:"datacenter"`
	State      string         `json:"state,omitempty"` // "leaving"; empty: it owns blocks
	Running    bool           `json:"running"`
	Blocks     uint64         `json:"blocks"`
	Bytes      uint64         `json:"bytes"`
	DeadBytes  uint64         `json:"dead_bytes"`     // of deleted blocks, until their segments are compacted
	Down       []string       `json:"down,omitempty"` // servers that it takes for down
	Status     *region.Status `json:"status,omitempty"`
}

// Storage is who knows and changes the storage servers.
type Storage interface {
	Storage(ctx context.Context) ([]StorageRegion, error)
	JoinStorage(ctx context.Context, region topology.Region) (server string, err error)
	LeaveStorage(ctx context.Context, server string) error
}

// getStorage gives XattrStorage.
func (f *fileSystem) getStorage(ctx context.Context, h *fuse.InHeader) ([]byte, error) {
	switch {
	case f.storage == nil:
		return nil, posix.EOPNOTSUPP
	case !isOperator(h):
		return nil, posix.EPERM
	}
	regions, err := f.storage.Storage(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(append([]StorageRegion{}, regions...))
}

// setStorage does what a StorageChange asks for: EINVAL if it cannot be.
func (f *fileSystem) setStorage(ctx context.Context, h *fuse.InHeader, value []byte) error {
	switch {
	case f.storage == nil:
		return posix.EOPNOTSUPP
	case !isOperator(h):
		return posix.EPERM
	}
	var change StorageChange
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if d.Decode(&change) != nil || d.More() || (change.Join == "") == (change.Leave == "") {
		return posix.EINVAL
	}
	var err error
	if change.Join != "" {
		_, err = f.storage.JoinStorage(ctx, change.Join)
	} else {
		err = f.storage.LeaveStorage(ctx, change.Leave)
	}
	if err != nil {
		f.logger.Warn("the storage servers cannot be changed", "join", change.Join, "leave", change.Leave, "error", err)
		return posix.EINVAL
	}
	return nil
}
