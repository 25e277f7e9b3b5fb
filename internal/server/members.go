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

// members gives the newest storage servers of a region that are known: those of the cluster, or those that this server has
// learnt since.
func (s *Server) members(region topology.Region) (block.Members, error) {
	newest := block.Members{Version: 1}
	for _, server := range s.cfg.Cluster.Storage(region) {
		newest.Servers = append(newest.Servers, block.Server{ID: server.Storage, Datacenter: server.Datacenter})
	}
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
