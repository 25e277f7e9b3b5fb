package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// Numbers are the numbers of a server with one data directory that only grow: its starts, and the positions
// of its logs. The registry keeps them, and so do the servers that share a partition with the server. A
// server that starts with lower numbers was rolled back: its data directory is an older copy.
type Numbers struct {
	Server      string                  `json:"server"`
	Instance    string                  `json:"instance"`       // identifies the data directory
	Incarnation uint64                  `json:"incarnation"`    // number of the last start; 0: the message only asks
	Logs        map[uint32]wal.Position `json:"logs,omitempty"` // durable position of the log of each process
	// Cluster is the time at which the sender's cluster was created; nil: the sender has an older version.
	Cluster *time.Time `json:"cluster,omitempty"`
}

// Bounds of numbers. Higher numbers are an error of their source, and are ignored.
const (
	maxIncarnation = 1 << 31
	maxStarts      = 1 << 20 // maximum number of starts of which a data directory may have no record
	maxCheckpoints = 1 << 40 // maximum number of checkpoints that a log may lack
	maxInstance    = 128
)

// validate refuses impossible numbers.
func (n *Numbers) validate() error {
	if n.Server == "" || n.Instance == "" || len(n.Instance) > maxInstance || n.Incarnation >= maxIncarnation {
		return fmt.Errorf("numbers of server %.100q, instance %.130q, incarnation %d: no server has such ones", n.Server, n.Instance, n.Incarnation)
	}
	return nil
}

// merge raises n to the numbers of other, for the same data directory. If other is from another directory, it
// replaces n.
func (n *Numbers) merge(other *Numbers) {
	if n.Instance != other.Instance {
		*n = Numbers{Server: other.Server, Instance: other.Instance}
	}
	n.Incarnation = max(n.Incarnation, other.Incarnation)
	logs := maps.Clone(n.Logs)
	for process, at := range other.Logs {
		if logs == nil {
			logs = map[uint32]wal.Position{}
		}
		if at.Compare(logs[process]) > 0 {
			logs[process] = at
		}
	}
	n.Logs = logs
}

// numbersFile is the name of the file with the numbers of other servers.
const numbersFile = "numbers"

// peers holds the numbers of other servers. Its methods may be called concurrently.
type peers struct {
	mu      sync.Mutex
	numbers map[string]Numbers // GUARDED_BY mu; by server
	changed bool               // GUARDED_BY mu; since the last save
}

// load reads the file. After an error the caller can continue, because the registry and other servers have
// the same numbers.
func (p *peers) load(dir string) error {
	var of map[string]Numbers
	text, err := durable.ReadCopied(filepath.Join(dir, numbersFile), func(text []byte) (uint64, error) {
		var of map[string]Numbers
		return 0, json.Unmarshal(text, &of)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.numbers = of
	return nil
}

// exchange returns the known numbers of a server, and merges the new ones. It drops numbers of processes that
// are not replicas of the server.
func (p *peers) exchange(sent *Numbers, replicas []topology.Replica) Numbers {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.numbers[sent.Server]
	if sent.Incarnation > 0 {
		now := was
		now.merge(sent)
		maps.DeleteFunc(now.Logs, func(process uint32, _ wal.Position) bool {
			return !slices.ContainsFunc(replicas, func(r topology.Replica) bool { return uint32(r.Process) == process })
		})
		if p.numbers == nil {
			p.numbers = map[string]Numbers{}
		}
		p.numbers[sent.Server] = now
		p.changed = p.changed || now.Incarnation != was.Incarnation || now.Instance != was.Instance || !maps.Equal(now.Logs, was.Logs)
	}
	if was.Instance != sent.Instance {
		return Numbers{Server: sent.Server, Instance: sent.Instance}
	}
	return was
}

// save writes the file if the numbers have changed.
func (p *peers) save(dir string) error {
	p.mu.Lock()
	if !p.changed {
		p.mu.Unlock()
		return nil
	}
	text, err := json.Marshal(p.numbers)
	p.changed = err != nil
	p.mu.Unlock()
	if err != nil {
		return err
	}
	if err := durable.WriteCopied(filepath.Join(dir, numbersFile), text); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed = true
		return err
	}
	return nil
}
