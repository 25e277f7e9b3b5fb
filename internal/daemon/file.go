package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// File is the cluster file that a person writes. It is the same on all servers.
type File struct {
	topology.Spec `yaml:",inline"`
	Registry      RegistryFile `yaml:"registry"`
	// Certificates is a directory made by 'globalfs certs', relative to the file. Empty: connections are
	// neither encrypted nor authenticated, and only loopback addresses are used.
	Certificates string `yaml:"certificates"`
	// Durability selects the failures that an acknowledged update survives: os, sync, or memory, which is
	// only for servers in one process.
	Durability string `yaml:"durability"`
	// Fabric is auto or off. With auto, peers of one host use shared memory instead of TCP, if both ends can.
	Fabric topology.Fabric `yaml:"fabric"`
	// DataDir is the directory with a subdirectory for each server, which has the name of the server.
	DataDir string      `yaml:"data_dir"`
	GC      GCFile      `yaml:"gc"`
	Clients ClientsFile `yaml:"clients"`
}

// ClientsFile limits the clients with certificates that do not name user 0.
type ClientsFile struct {
	// BlockRights is required or optional. With optional, storage servers return a block to a caller that
	// shows only its id, as clients of versions before rights do.
	BlockRights string `yaml:"block_rights"`
	// InodeTickets is required or optional. With optional, replicas accept the number of an inode without a
	// proof that the client has received it from a replica: clients of versions before tickets have none.
	InodeTickets string `yaml:"inode_tickets"`
	// UpdatesPerSecond and CallsPerSecond limit the updates, and the requests of all kinds, of each client at
	// the replicas of a server per second. Further requests wait. 0: no limit.
	UpdatesPerSecond int `yaml:"updates_per_second"`
	CallsPerSecond   int `yaml:"calls_per_second"`
	// MetadataPerSecond limits the bytes of updates in the same way; they include names, xattrs and the
	// content of small files.
	MetadataPerSecond int `yaml:"metadata_bytes_per_second"`
}

// Defaults of ClientsFile: they are above the need of one busy mount, and below the capacity of a server with
// several processors. While other clients work, a client gets half of them.
const (
	DefaultUpdatesPerSecond  = 2000
	DefaultCallsPerSecond    = 10_000
	DefaultMetadataPerSecond = 16 << 20
)

// The values of ClientsFile.BlockRights and ClientsFile.InodeTickets.
const (
	rightsRequired = "required"
	rightsOptional = "optional"
)

// RegistryFile configures the access to the registry.
type RegistryFile struct {
	// Endpoints are the URLs of etcd.
	Endpoints []string `yaml:"endpoints"`
	// File is the registry of servers in one process ('globalfs dev'), instead of etcd.
	File string `yaml:"file"`
	// CA, Certificate and Key are files for https endpoints, relative to the file: all may be empty.
	CA          string `yaml:"ca"`
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	// Username and PasswordFile, the path of a file with the password, are for an etcd with authentication.
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`
	// Insecure accepts http endpoints on other hosts.
	Insecure bool          `yaml:"insecure"`
	Timeout  time.Duration `yaml:"timeout"`
	Lease    time.Duration `yaml:"lease"`
}

// GCFile configures the deletion of blocks that no file contains.
type GCFile struct {
	Grace time.Duration `yaml:"grace"`
	Sweep time.Duration `yaml:"sweep"`
}

// DefaultDataDir is the default of DataDir.
const DefaultDataDir = "/var/lib/globalfs"

// DefaultFile returns a File with the defaults of all keys.
func DefaultFile() File {
	return File{
		Spec:       topology.DefaultSpec(),
		Registry:   RegistryFile{Timeout: registry.DefaultTimeout, Lease: registry.DefaultLease},
		Durability: "sync", Fabric: topology.FabricAuto, DataDir: DefaultDataDir,
		GC:      GCFile{Grace: collector.DefaultGrace, Sweep: collector.DefaultSweep},
		Clients: ClientsFile{BlockRights: rightsRequired, InodeTickets: rightsRequired, UpdatesPerSecond: DefaultUpdatesPerSecond, CallsPerSecond: DefaultCallsPerSecond, MetadataPerSecond: DefaultMetadataPerSecond},
	}
}

// fileError adds the next step to the error of a cluster file that cannot be read.
func fileError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: 'globalfs init' writes such a file", err)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w: give the cluster file itself, such as %s", err, filepath.Join(path, "cluster.yaml"))
	}
	return err
}

// ReadFile reads a cluster file over the defaults. Paths in it are absolute then. Errors name the file, the
// line and the key.
func ReadFile(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	f, err := parseFile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	at, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for _, p := range []*string{&f.Certificates, &f.DataDir, &f.Registry.File, &f.Registry.CA, &f.Registry.Certificate, &f.Registry.Key, &f.Registry.PasswordFile} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(at, *p)
		}
	}
	return f, nil
}

func parseFile(text []byte) (*File, error) {
	f := DefaultFile()
	if err := topology.Decode(text, &f); err != nil {
		return nil, err
	}
	return &f, f.Validate()
}

// Validate returns an error that names the invalid key, its value and the remedy.
func (f *File) Validate() error {
	if err := f.Spec.Validate(); err != nil {
		return err
	}
	switch {
	case f.Name == "":
		return errors.New("name: missing: give the cluster a name, which its certificates and the registry use")
	case f.Version != 0 || !f.Created.IsZero() || f.Restored != "" || len(f.Replaced)+len(f.StorageChanges)+len(f.Revoked)+len(f.Added) > 0:
		return errors.New("version, created, restored, replaced, added_partitions, storage_changes, revoked: these are kept by the servers: remove them")
	case len(f.Addresses) == 0:
		return errors.New("addresses: missing: give each server's host:port")
	case len(f.Registry.Endpoints) == 0 && f.Registry.File == "":
		return errors.New("registry: endpoints: missing: give those of etcd, such as http://127.0.0.1:2379")
	case len(f.Registry.Endpoints) > 0 && f.Registry.File != "":
		return errors.New("registry: endpoints, file: remove one: the file is for servers in one process, which need no etcd")
	case f.GC.Grace < 0 || f.GC.Sweep <= 0:
		return fmt.Errorf("gc: grace %v, sweep %v: give durations such as 10m and 1h", f.GC.Grace, f.GC.Sweep)
	case f.Clients.UpdatesPerSecond < 0 || f.Clients.CallsPerSecond < 0 || f.Clients.MetadataPerSecond < 0:
		return fmt.Errorf("clients: updates_per_second %d, calls_per_second %d, metadata_bytes_per_second %d: give numbers such as %d, %d and %d, or 0 for no bound",
			f.Clients.UpdatesPerSecond, f.Clients.CallsPerSecond, f.Clients.MetadataPerSecond, DefaultUpdatesPerSecond, DefaultCallsPerSecond, DefaultMetadataPerSecond)
	case f.Clients.BlockRights != rightsRequired && f.Clients.BlockRights != rightsOptional:
		return fmt.Errorf("clients: block_rights: %q: give required, or optional while mounts of older versions with bound certificates are in use", f.Clients.BlockRights)
	case f.Clients.InodeTickets != rightsRequired && f.Clients.InodeTickets != rightsOptional:
		return fmt.Errorf("clients: inode_tickets: %q: give required, or optional while mounts of older versions with bound certificates are in use", f.Clients.InodeTickets)
	}
	if f.Multicast.Fabric == topology.MemoryShm && f.Certificates == "" {
		return errors.New("multicast: fabric: shm: it needs certificates: processes share memory only after they have proven their identity")
	}
	if f.Multicast.Fabric == topology.MemoryShm && f.Fabric == topology.FabricOff {
		return errors.New("multicast: fabric: shm: it needs fabric: auto: with off, processes of one host share no memory")
	}
	if f.Multicast.Fabric == topology.MemoryVerbs && f.Certificates == "" {
		return errors.New("multicast: fabric: verbs: it needs certificates: servers exchange the keys of their memory only after they have proven their identity")
	}
	if d, err := f.durability(); err != nil {
		return err
	} else if d == wal.Memory && f.Multicast.Local == topology.LocalTRAM {
		return errors.New("multicast: local: tram: it needs durability sync or os: with memory, a replica that restarts has lost its promises")
	}
	plan, err := f.Plan()
	if err != nil {
		return err
	}
	return plan.Crowded()
}

// durability returns the kind of log of the replicas. A log in memory is only for servers that start and end
// together: a replica that restarts alone would have lost its promises.
func (f *File) durability() (wal.Durability, error) {
	switch f.Durability {
	case "os":
		return wal.OS, nil
	case "sync":
		return wal.Sync, nil
	case "memory":
		if f.Registry.File != "" {
			return wal.Memory, nil
		}
	}
	return 0, fmt.Errorf("durability: %q: give sync (an acknowledged update survives a loss of power) or os (the end of the processes; fsync waits for the disks)", f.Durability)
}

// rates returns the limits in the form of package server.
func (c *ClientsFile) rates() server.ClientRates {
	return server.ClientRates{Updates: float64(c.UpdatesPerSecond), Calls: float64(c.CallsPerSecond), Bytes: float64(c.MetadataPerSecond)}
}
