package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/topology"
)

// membersFile is the file in the directory of a server with the newest known members of its region. The
// storage server must never go back to older members.
const membersFile = "members.json"

// Members returns the storage servers of a region in a description of the cluster.
func Members(c *topology.Cluster, of topology.Region) region.Members {
	m := region.Members{Version: c.StorageVersion(of)}
	for _, s := range c.Storage(of) {
		m.Servers = append(m.Servers, region.Server{ID: s.Storage, Datacenter: s.Datacenter, Leaving: s.State == topology.StorageLeaving})
	}
	return m
}

// newestMembers returns the newest members that the server in dir knows: those in its file, or the planned
// ones.
func newestMembers(dir string, planned region.Members) (region.Members, error) {
	path := filepath.Join(dir, membersFile)
	var learnt region.Members
	text, err := durable.ReadCopied(path, func(text []byte) (uint64, error) {
		_, err := membersOf(text)
		return 0, err // the damaged version may be higher
	})
	if errors.Is(err, fs.ErrNotExist) {
		return planned, nil
	}
	if err == nil {
		learnt, err = membersOf(text)
	}
	if err != nil {
		return region.Members{}, fmt.Errorf("%s: %w; replace it by the file of another server of the region", path, err)
	}
	if learnt.Newer(&planned) {
		return learnt, nil
	}
	return planned, nil
}

func membersOf(text []byte) (m region.Members, err error) {
	if err = json.Unmarshal(text, &m); err == nil {
		err = m.Validate()
	}
	return m, err
}

// saveMembers makes newer members durable.
func saveMembers(dir string, m region.Members) error {
	text, err := json.MarshalIndent(&m, "", "\t")
	if err != nil {
		return err
	}
	return durable.WriteCopied(filepath.Join(dir, membersFile), append(text, '\n'))
}
