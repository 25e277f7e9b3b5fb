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

// members gives the newest storage servers of a region that are known: those of the cluster, or those that this server has
// learnt since.
func (s *Server) members(region topology.Region) (block.Members, error) {
	newest := Members(s.cfg.Cluster, region)
	path := filepath.Join(s.cfg.Dir, membersFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newest, nil
	}
	if err != nil {
		return block.Members{}, err
	}
	var learnt block.Members
	if err := json.Unmarshal(text, &learnt); err != nil {
		return block.Members{}, fmt.Errorf("%s: %w; replace it by the file of another server of the region", path, err)
	}
	if err := learnt.Validate(); err != nil {
		return block.Members{}, fmt.Errorf("%s: %w; replace it by the file of another server of the region", path, err)
	}
	if learnt.Newer(&newest) {
		newest = learnt
	}
	return newest, nil
}

// saveMembers makes newer members durable.
func (s *Server) saveMembers(m block.Members) error {
	text, err := json.MarshalIndent(&m, "", "\t")
	if err != nil {
		return err
	}
	return WriteDurably(filepath.Join(s.cfg.Dir, membersFile), append(text, '\n'))
}
