package mount

import (
	"os"

	"github.com/globalfs/globalfs/internal/client"
)

// Counters are the counters of a mount since the start of its process. They include the process and the
// servers.
type Counters struct {
	PID      int      `json:"pid"`      // process that serves the mount
	Servers  []Server `json:"servers"`  // servers of the cluster
	Requests uint64   `json:"requests"` // answered requests of the kernel
	Queries  uint64   `json:"queries"`  // calls that read metadata
	Commands uint64   `json:"commands"` // calls that order a command

	Holding client.Holding `json:"holding"` // directories that the mount holds exclusively
}

// Server is a server of the cluster.
type Server struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// countersOf returns the counters of a mount.
func countersOf(f *fileSystem) *Counters {
	c := &Counters{PID: os.Getpid(), Requests: f.kernel.Answered(), Holding: f.client.Holding()}
	c.Queries, c.Commands = f.client.Calls()
	for _, s := range f.client.Cluster().Servers {
		c.Servers = append(c.Servers, Server{s.Name, s.Address})
	}
	return c
}
