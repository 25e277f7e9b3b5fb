package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// backedUp is the running cluster of `backup create` and `restore blocks`: a backup.Cluster.
type backedUp struct {
	access  *daemon.Access
	client  *attach.Client
	objects attach.Objects
}

// savePatience is the time limit for a partition to save its state.
const savePatience = time.Minute

func openBackedUp(ctx context.Context, f *accessFlags, logger *slog.Logger) (_ *backedUp, err error) {
	c := &backedUp{}
	if c.access, err = f.open(ctx, logger, identity.Admin); err != nil {
		return nil, err
	}
	if c.objects, err = attach.OpenObjects(ctx, c.access.Cluster(), true); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if c.objects == nil { // the blocks are at the servers
		if err := c.access.CheckReach(); err != nil {
			return nil, errors.Join(command.InputError(err), c.close())
		}
	}
	if c.client, err = c.access.Client(daemon.ClientConfig{Region: c.access.Region(), Objects: c.objects}); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *backedUp) close() error {
	var errs []error
	if c.client != nil {
		errs = append(errs, c.client.Close())
	}
	if c.objects != nil {
		errs = append(errs, c.objects.Close())
	}
	return errors.Join(append(errs, c.access.Close())...)
}

// Plan implements backup.Cluster.
func (c *backedUp) Plan() *topology.Cluster { return c.access.Cluster() }

// Name implements backup.Cluster.
func (c *backedUp) Name() string { return c.access.Name() }

// Check implements backup.Cluster. A server of an older version could not read the messages of the others
// after the backup.
func (c *backedUp) Check(ctx context.Context) error {
	for _, a := range c.access.Status(ctx) {
		if a.Error != "" {
			continue // a majority of each partition is enough
		}
		var reply daemon.BackupReply
		if err := c.access.Ask(ctx, a.Server.Name, &daemon.Request{Op: daemon.Backup, Backup: &daemon.BackupRequest{}}, &reply); err != nil {
			return fmt.Errorf("server %s: %w (all servers must be of a version that can make backups)", a.Server.Name, err)
		}
	}
	return nil
}

// Mark implements backup.Cluster.
func (c *backedUp) Mark(ctx context.Context, partition uint16, number uint64, release bool) (newest uint64, err error) {
	var errs []string
	for _, r := range c.Plan().Partitions[partition].Replicas {
		var reply daemon.BackupReply
		q := &daemon.Request{Op: daemon.Backup, Partition: partition, Backup: &daemon.BackupRequest{Number: number, Release: release}}
		err := c.access.Ask(ctx, r.Server, q, &reply)
		switch {
		case err == nil:
			return reply.Newest, nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		}
		errs = append(errs, fmt.Sprintf("%s: %s", r.Server, daemon.Plain(err.Error())))
	}
	return 0, fmt.Errorf("no replica of partition %d takes the marker of the backup (%s): start a majority of its servers, as 'globalfs status' shows them", partition, strings.Join(errs, "; "))
}

// State implements backup.Cluster.
func (c *backedUp) State(ctx context.Context, partition uint16, number uint64, into io.Writer) error {
	replicas := c.Plan().Partitions[partition].Replicas
	last := map[string]error{}
	for end := time.Now().Add(savePatience); time.Now().Before(end); {
		for _, r := range replicas {
			export, err := c.find(ctx, r.Server, partition, number)
			if err == nil && export != 0 {
				return c.read(ctx, r.Server, partition, number, export, into)
			}
			last[r.Server] = err
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	err := fmt.Errorf("no replica of partition %d has saved its state in %v: check with 'globalfs status' that a majority of the partition's replicas runs", partition, savePatience)
	for server, cause := range last {
		if cause != nil {
			err = errors.Join(err, fmt.Errorf("server %s: %w", server, cause))
		}
	}
	return err
}

// find makes a server open the saved state of a partition for reading, and returns the number by which read
// names the copy; 0: the state is not saved yet.
func (c *backedUp) find(ctx context.Context, server string, partition uint16, number uint64) (export uint64, err error) {
	reply, err := c.piece(ctx, server, partition, daemon.BackupRequest{Number: number, Read: true})
	return reply.Export, err
}

func (c *backedUp) piece(ctx context.Context, server string, partition uint16, b daemon.BackupRequest) (reply daemon.BackupReply, err error) {
	err = c.access.Ask(ctx, server, &daemon.Request{Op: daemon.Backup, Partition: partition, Backup: &b}, &reply)
	return reply, err
}

// read reads a copy to its end.
func (c *backedUp) read(ctx context.Context, server string, partition uint16, number, export uint64, into io.Writer) error {
	for offset := uint64(0); ; {
		reply, err := c.piece(ctx, server, partition, daemon.BackupRequest{Number: number, Read: true, Export: export, Offset: offset})
		switch {
		case err != nil:
			return fmt.Errorf("server %s: %w: start the backup again", server, err)
		case reply.Waiting:
			if err := pause.For(ctx, 50*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		if _, err := into.Write(reply.Data); err != nil {
			return err
		}
		if offset += uint64(len(reply.Data)); offset >= reply.Length || len(reply.Data) == 0 {
			return nil
		}
	}
}

// Block implements backup.Cluster.
func (c *backedUp) Block(ctx context.Context, partition uint16, id posix.BlockID) ([]byte, error) {
	store, err := c.client.BlockStore(partition)
	if err != nil {
		return nil, err
	}
	return store.Get(ctx, id, nil)
}

// PutBlock implements backup.Cluster.
func (c *backedUp) PutBlock(ctx context.Context, partition uint16, id posix.BlockID, data []byte) error {
	store, err := c.client.BlockStore(partition)
	if err != nil {
		return err
	}
	return store.Put(ctx, block.New(id, data))
}
