package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
)

// BackupRequest is the part of a Request that concerns the state of a partition in a backup.
type BackupRequest struct {
	Number  uint64 `json:"number"`            // number of the backup; 0: only return the newest one
	Release bool   `json:"release,omitempty"` // release the blocks of the backup
	Read    bool   `json:"read,omitempty"`    // return a piece of the saved state
	Export  uint64 `json:"export,omitempty"`  // as in the reply with the previous piece
	Offset  uint64 `json:"offset,omitempty"`
}

// BackupReply is the answer to a BackupRequest.
type BackupReply struct {
	Newest  uint64 `json:"newest,omitempty"`  // newest backup that the replica knows
	Waiting bool   `json:"waiting,omitempty"` // the state is not saved yet: ask again
	Export  uint64 `json:"export,omitempty"`
	Length  uint64 `json:"length,omitempty"` // length of the whole state in bytes
	Data    []byte `json:"data,omitempty"`
}

// maxBackupAhead is the maximum difference between the number of a new backup, which is a time, and the
// server's clock. A higher number would make the partition refuse all backups until that time.
const maxBackupAhead = time.Hour

var errBackupAhead = errors.New("the clock of the machine that makes the backup is ahead of this server's by more than an hour")

// backup starts a backup of a partition, or reads the state that a replica has saved.
func (s *Server) backup(ctx context.Context, q *Request) (reply BackupReply, err error) {
	b := q.Backup
	switch {
	case b == nil:
		return reply, errors.New("backup: the request names none")
	case b.Number == 0:
		return reply, nil
	case !b.Read && !b.Release && b.Number > uint64(time.Now().Add(maxBackupAhead).UnixMilli()):
		return reply, errBackupAhead
	case !b.Read:
		reply.Newest, err = s.server.Mark(ctx, q.Partition, b.Number, b.Release)
		return reply, err
	}
	p, err := s.server.CutPiece(q.Partition, b.Number, b.Export, b.Offset)
	if errors.Is(err, server.ErrNotSaved) {
		return BackupReply{Waiting: true}, nil
	}
	return BackupReply{Waiting: err == nil && p.Length == 0, Export: p.Export, Length: p.Length, Data: p.Data}, err
}

// RestoredFile is the name of a file in the data directory of a server. It names the backup that the
// directory was restored from.
const RestoredFile = "restored"

// RestoreIncomplete is the content of RestoredFile until the directory is complete.
const RestoreIncomplete = "incomplete"

// RestoredPartitionsFile is the name of a file beside RestoredFile. It has the partitions of the backup that
// the cluster file does not give: they were added to the cluster of the backup.
const RestoredPartitionsFile = "restored-partitions.yaml"

// readRestoredPartitions reads RestoredPartitionsFile; none if there is no such file.
func readRestoredPartitions(dir string) (added []topology.Addition, err error) {
	path := filepath.Join(dir, RestoredPartitionsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = topology.Decode(text, &added)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove the directory and restore again", path, err)
	}
	return added, nil
}

// readRestored returns the backup that a data directory was restored from; empty: it was not restored.
func readRestored(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, RestoredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	id := strings.TrimSpace(string(text))
	if id == RestoreIncomplete {
		return "", fmt.Errorf("%s is incomplete: 'globalfs restore metadata' was interrupted there; remove the directory and restore again", dir)
	}
	return id, err
}

// checkRestored fails if a first member of a restored cluster would start without the restored state, or a
// first member of another cluster with it: the replicas of a partition would then differ.
func checkRestored(ctx context.Context, dir, name string, d *description, r marks) error {
	has, err := readRestored(dir)
	if err != nil || has == d.spec.Restored {
		return err
	}
	for i := range d.cluster.Partitions {
		p := &d.cluster.Partitions[i]
		for _, replica := range p.Replicas {
			if replica.Server != name || replica.Process != replica.Seat || d.cluster.Joined(name) {
				continue // a server that joined has replicas of partitions that were added since
			}
			was, _, err := readProcess(filepath.Join(dir, topology.PartitionDir(p.ID), processFile))
			if err != nil || was == replica.Process && has == "" {
				continue // settle reports an error
			}
			spoke, err := r.Marked(ctx, markOf(replica.Process))
			switch {
			case err != nil:
				return err
			case spoke: // its disk was lost: the replica is replaced
			case d.spec.Restored == "":
				return fmt.Errorf("%s was restored from backup %s, but the cluster was made without a backup: remove the directory, or give the cluster up with 'globalfs admin forget' and start it again", dir, has)
			default:
				return fmt.Errorf("the cluster was restored from backup %s, and %s was not (it has %q): remove the directory and run 'globalfs restore metadata --server %s --backup %s'", d.spec.Restored, dir, has, name, d.spec.Restored)
			}
		}
	}
	return nil
}
