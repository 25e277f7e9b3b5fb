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

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// Numbers say how far a server with one data directory was: numbers that only grow. The registry and the
// servers that share a partition with it keep them. A server that starts with lower ones was rolled back.
type Numbers struct {
	Server      string                  `json:"server"`
	Instance    string                  `json:"instance"`       // of the data directory
	Incarnation uint64                  `json:"incarnation"`    // the last start; 0: only a question
	Logs        map[uint32]wal.Position `json:"logs,omitempty"` // by process: what is durable
}

// Bounds of numbers: what is beyond is a fault of the place that it is from, and is not believed.
const (
	maxIncarnation = 1 << 31
	maxStarts      = 1 << 20 // that a server may have forgotten
	maxCheckpoints = 1 << 40 // the same, of a log
	maxInstance    = 128
)

// validate refuses numbers that no server can have.
func (n *Numbers) validate() error {
	if n.Server == "" || n.Instance == "" || len(n.Instance) > maxInstance || n.Incarnation >= maxIncarnation {
		return fmt.Errorf("numbers of server %.100q, instance %.130q, incarnation %d: no server has such ones", n.Server, n.Instance, n.Incarnation)
	}
	return nil
}

// merge adds what other knows of the same directory. What is known of an older directory is dropped.
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

// numbersFile keeps what a server was told of others.
const numbersFile = "numbers"

// peers is what a server was told of the numbers of others. Its methods may be called concurrently.
type peers struct {
	mu      sync.Mutex
	of      map[string]Numbers // GUARDED_BY mu; by server
	changed bool               // GUARDED_BY mu; since it was saved
}

// load reads the file. A damaged one is as good as none: the registry and other servers know the same.
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
	p.of = of
	return nil
}

// hear gives what was known of a server's directory, and takes what it says of itself. Processes that are not
// among its replicas are forgotten.
func (p *peers) hear(said *Numbers, replicas []topology.Replica) Numbers {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.of[said.Server]
	if said.Incarnation > 0 {
		now := was
		now.merge(said)
		maps.DeleteFunc(now.Logs, func(process uint32, _ wal.Position) bool {
			return !slices.ContainsFunc(replicas, func(r topology.Replica) bool { return uint32(r.Process) == process })
		})
		if p.of == nil {
			p.of = map[string]Numbers{}
		}
		p.of[said.Server] = now
		p.changed = p.changed || now.Incarnation != was.Incarnation || now.Instance != was.Instance || !maps.Equal(now.Logs, was.Logs)
	}
	if was.Instance != said.Instance {
		return Numbers{Server: said.Server, Instance: said.Instance}
	}
	return was
}

// save writes the file if something is new.
func (p *peers) save(dir string) error {
	p.mu.Lock()
	changed := p.changed
	text, err := json.Marshal(p.of)
	p.changed = false
	p.mu.Unlock()
	if !changed || err != nil {
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
