package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/topology"
)

// membersFile is the file in the directory of a server with the newest members of its region that it has learnt. The storage
// node relies on it: it must never know older ones than before.
const membersFile = "members.json"

// Members gives the storage servers of a region as the cluster was planned.
func Members(c *topology.Cluster, region topology.Region) block.Members {
	m := block.Members{Version: c.StorageVersion(region)}
	for _, s := range c.Storage(region) {
		m.Servers = append(m.Servers, block.Server{ID: s.Storage, Datacenter: s.Datacenter, Leaving: s.State == topology.StorageLeaving})
	}
	return m
}

// newestMembers gives the newest members that are known to the server in dir: those that were planned, or those that it has learnt
// since.
func newestMembers(dir string, planned block.Members) (block.Members, error) {
	path := filepath.Join(dir, membersFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return planned, nil
	}
	if err != nil {
		return block.Members{}, err
	}
	var learnt block.Members
	if err = json.Unmarshal(text, &learnt); err == nil {
		err = learnt.Validate()
	}
	if err != nil {
		return block.Members{}, fmt.Errorf("%s: %w; replace it by the file of another server of the region", path, err)
	}
	if learnt.Newer(&planned) {
		return learnt, nil
	}
	return planned, nil
}

// saveMembers makes newer members durable.
func saveMembers(dir string, m block.Members) error {
	text, err := json.MarshalIndent(&m, "", "\t")
	if err != nil {
		return err
	}
	return WriteDurably(filepath.Join(dir, membersFile), append(text, '\n'))
}
