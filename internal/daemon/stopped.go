package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// StoppedServer is the data directory of a server that is not running.
type StoppedServer struct {
	Dir      string
	Name     string // name of the server
	Identity string // identity of the cluster
	Spec     topology.Spec
	Plan     *topology.Cluster
	peers    peers
}

// HasServer reports whether a directory is the data directory of one server.
func HasServer(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ownerFile))
	return err == nil
}

// HoldsServers reports whether a directory is the data directory of a server, or holds such directories.
func HoldsServers(dir string) bool {
	_, err := serverDirs([]string{dir})
	return err == nil
}

// ReadStopped reads the data directory of a stopped server. The server cannot start until unlock.
func ReadStopped(dir string) (s *StoppedServer, unlock func() error, err error) {
	if !HasServer(dir) {
		return nil, nil, fmt.Errorf("%s is not the data directory of a server: it has no file %s", dir, ownerFile)
	}
	if unlock, err = claimDir(dir); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unlock())
		}
	}()
	path := filepath.Join(dir, ownerFile)
	text, err := durable.ReadCopied(path, func(text []byte) (uint64, error) {
		_, _, err := readOwner(path, "CLUSTER BIRTH SERVER", text)
		return 0, err
	})
	if err != nil {
		return nil, nil, err
	}
	owner, _, err := readOwner(path, "CLUSTER BIRTH SERVER", text)
	if err != nil {
		return nil, nil, err
	}
	words := strings.Fields(owner)
	d, err := loadCopy(dir)
	switch {
	case err != nil:
		return nil, nil, err
	case d == nil:
		return nil, nil, fmt.Errorf("%s has no description of its cluster: put the file %s of another server there", dir, specFile)
	case len(words) < 2 || words[len(words)-2] != string(d.cluster.Identity()):
		return nil, nil, fmt.Errorf("%s is of %q, and its file %s is of the cluster that was created at %s", dir, owner, specFile, d.cluster.Identity())
	}
	s = &StoppedServer{Dir: dir, Name: words[len(words)-1], Identity: string(d.cluster.Identity()), Spec: d.spec, Plan: d.cluster}
	_ = s.peers.load(dir) // the numbers are evidence about other servers; they may be missing
	return s, unlock, nil
}

// ReadAllStopped reads the data directories of the stopped servers of one cluster. Each given directory is
// one of a server, or holds such directories. The servers are sorted by name; newest has the newest
// description of the cluster. No server can start until unlock.
func ReadAllStopped(given []string) (servers []*StoppedServer, newest *StoppedServer, unlock func() error, err error) {
	dirs, err := serverDirs(given)
	if err != nil {
		return nil, nil, nil, err
	}
	var unlocks []func() error
	end := func() error {
		var errs []error
		for _, u := range unlocks {
			errs = append(errs, u())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	for _, dir := range dirs {
		server, one, err := ReadStopped(dir)
		if err != nil {
			return nil, nil, nil, err
		}
		unlocks = append(unlocks, one)
		for _, other := range servers {
			switch {
			case other.Identity != server.Identity:
				return nil, nil, nil, fmt.Errorf("%s and %s are of different clusters: give the directories of one", other.Dir, dir)
			case other.Name == server.Name:
				return nil, nil, nil, fmt.Errorf("%s and %s are both of server %s: give the newer one only", other.Dir, dir, server.Name)
			}
		}
		servers = append(servers, server)
	}
	newest = slices.MaxFunc(servers, func(a, b *StoppedServer) int { return cmp.Compare(a.Spec.Version, b.Spec.Version) })
	slices.SortFunc(servers, func(a, b *StoppedServer) int { return strings.Compare(a.Name, b.Name) })
	return servers, newest, end, nil
}

// serverDirs finds the data directories of servers below the given directories.
func serverDirs(given []string) (dirs []string, err error) {
	for _, dir := range given {
		if HasServer(dir) {
			dirs = append(dirs, dir)
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("%w: give the data directories of the stopped servers, or a directory that holds them", err)
		}
		found := false
		for _, e := range entries {
			if below := filepath.Join(dir, e.Name()); e.IsDir() && HasServer(below) {
				dirs, found = append(dirs, below), true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s is neither the data directory of a server nor holds one: name directories that the servers have written", dir)
		}
	}
	if len(dirs) == 0 {
		return nil, errors.New("no data directory is given")
	}
	return dirs, nil
}

// Process returns the process of a partition in the directory; 0: there is none.
func (s *StoppedServer) Process(partition uint16) (multicast.ProcessID, error) {
	process, _, err := readProcess(filepath.Join(s.Dir, PartitionDir(partition), processFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return process, err
}

// PartitionDir returns the name of the directory of a partition's replica in the data directory of a server.
func PartitionDir(partition uint16) string { return fmt.Sprintf("partition-%d", partition) }

// ReportedPosition returns the position of the log of another server's process that the other server has
// reported to this one.
func (s *StoppedServer) ReportedPosition(server string, process multicast.ProcessID) wal.Position {
	s.peers.mu.Lock()
	defer s.peers.mu.Unlock()
	return s.peers.numbers[server].Logs[uint32(process)]
}
