package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Directory is one of those that are compared.
type Directory struct {
	Name      string    // for the result
	Path      string    // an existing directory
	Second    string    // the same directory in another mount; empty: none
	Processes []Process // their CPU time is counted
	// Counters reads the counters of the mount; nil: they are unknown.
	Counters func(ctx context.Context) (Counters, error)
}

// Process is one that serves a directory.
type Process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
}

// Counters count the work of a mount since its start.
type Counters struct {
	Requests uint64 `json:"requests"` // of the kernel
	Queries  uint64 `json:"queries"`  // calls that read metadata
	Commands uint64 `json:"commands"` // calls that order a command
}

func (c Counters) since(before Counters) Counters {
	return Counters{c.Requests - before.Requests, c.Queries - before.Queries, c.Commands - before.Commands}
}

func (c Counters) plus(other Counters) Counters {
	return Counters{c.Requests + other.Requests, c.Queries + other.Queries, c.Commands + other.Commands}
}

// Config of a run.
type Config struct {
	Directories []Directory
	Measures    []string // some of Measures
	Clients     []int    // numbers of clients, each measured by itself
	Rounds      int
	Files       int           // of each measure of small files, over all clients
	Size        int64         // of the large files in bytes, over all clients
	Limit       time.Duration // of one measure in one round; programs run to their end
	Tar         string        // an archive to unpack; empty: none
	Sources     string        // a directory with a configure script; empty: none
	Progress    func(string)  // is called with the next step
	// Settle brings the data that were written before a measure to the disks; nil: sync(2).
	Settle func()
}

// DefaultMeasures lists the names of the measures that a configuration without a choice runs.
func (c *Config) DefaultMeasures() (names []string) {
	for _, m := range measures {
		if m.needs == "" || m.needs == needsSecond && c.hasSecond() || m.needs == needsTar && c.Tar != "" || m.needs == needsSources && c.Sources != "" {
			names = append(names, m.name)
		}
	}
	return names
}

func (c *Config) hasSecond() bool {
	return slices.ContainsFunc(c.Directories, func(d Directory) bool { return d.Second != "" })
}

// Validate names the first wrong value.
func (c *Config) Validate() error {
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("--rounds %d: give at least 1", c.Rounds)
	case c.Files < 1:
		return fmt.Errorf("--files %d: give at least 1", c.Files)
	case c.Size < piece || c.Size%piece != 0:
		return fmt.Errorf("--size %d: give a multiple of 1M", c.Size)
	case c.Limit <= 0:
		return fmt.Errorf("--limit %v: give a positive duration", c.Limit)
	case len(c.Clients) == 0:
		return errors.New("--clients: give at least one number")
	}
	for _, n := range c.Clients {
		if n < 1 || n > 1024 {
			return fmt.Errorf("--clients %d: give 1 to 1024", n)
		}
	}
	for _, name := range c.Measures {
		if err := c.validateMeasure(name); err != nil {
			return err
		}
	}
	if c.Tar != "" {
		if _, err := os.Stat(c.Tar); err != nil {
			return fmt.Errorf("--tar: %w: give an archive for tar(1)", err)
		}
	}
	if c.Sources != "" {
		if _, err := os.Stat(c.Sources + "/configure"); err != nil {
			return fmt.Errorf("--configure %s: %w: give a directory with a configure script", c.Sources, err)
		}
	}
	return c.validateDirectories()
}

func (c *Config) validateMeasure(name string) error {
	i := slices.IndexFunc(measures, func(m measure) bool { return m.name == name })
	switch {
	case i < 0:
		return fmt.Errorf("--measures %q: give some of %s", name, strings.Join(MeasureNames(), ", "))
	case measures[i].needs == needsSecond && !c.hasSecond(), measures[i].needs == needsTar && c.Tar == "", measures[i].needs == needsSources && c.Sources == "":
		return fmt.Errorf("--measures %q: give %s as well", name, measures[i].needs)
	}
	return nil
}

func (c *Config) validateDirectories() error {
	if len(c.Directories) == 0 {
		return errors.New("no directory: give at least one")
	}
	names := map[string]bool{}
	for _, d := range c.Directories {
		if names[d.Name] {
			return fmt.Errorf("%s: given twice: give NAME=DIR with another name", d.Name)
		}
		names[d.Name] = true
		info, err := os.Stat(d.Path)
		if err != nil {
			return fmt.Errorf("%w: give an existing directory", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%s: not a directory: give a directory", d.Path)
		}
	}
	return nil
}

// MeasureNames lists all measures in the order in which they run.
func MeasureNames() (names []string) {
	for _, m := range measures {
		names = append(names, m.name)
	}
	return names
}
