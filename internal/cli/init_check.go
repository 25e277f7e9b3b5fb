package cli

import (
	"fmt"
	"io"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/topology"
)

// checkedFile is the result of 'init --check'.
type checkedFile struct {
	File       string             `json:"file"`
	Cluster    string             `json:"cluster"`
	Servers    []checkedServer    `json:"servers"`
	Partitions []checkedPartition `json:"partitions"`
}

type checkedServer struct {
	Name    string          `json:"name"`
	Region  topology.Region `json:"region"`
	Address string          `json:"address"`
}

type checkedPartition struct {
	ID      uint16          `json:"id"`
	Path    string          `json:"path"`
	Region  topology.Region `json:"region,omitempty"` // empty: global
	Servers []string        `json:"servers"`          // of the replicas, that of the first leader first
}

func checked(path, name string, plan *topology.Cluster) *checkedFile {
	c := &checkedFile{File: path, Cluster: name}
	for _, s := range plan.Servers {
		c.Servers = append(c.Servers, checkedServer{s.Name, s.Region, s.Address})
	}
	for _, p := range plan.Partitions {
		one := checkedPartition{ID: p.ID, Path: p.Path, Region: p.Region}
		for _, r := range p.Replicas {
			one.Servers = append(one.Servers, r.Server)
		}
		c.Partitions = append(c.Partitions, one)
	}
	return c
}

// checkFile returns the errors of a cluster file, or prints the cluster that the file describes.
func (f *initFlags) checkFile(out io.Writer, path string) error {
	file, err := readConfig(path)
	if err != nil {
		return err
	}
	if err := file.CheckRegistry(); err != nil {
		return command.InputError(err)
	}
	plan, err := file.Plan()
	if err != nil {
		return command.InputError(err)
	}
	if f.output == "json" {
		return command.PrintJSON(out, checked(path, file.Name, plan))
	}
	describe(out, plan, file.DataDir)
	fmt.Fprintf(out, "%s is right, as far as one file can tell\n", path)
	return nil
}
