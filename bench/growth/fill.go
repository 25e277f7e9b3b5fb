package growth

import (
	"context"
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/digest"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
)

// plan says where the files of a partition are. The first ones are in one directory, the others in
// directories of branch files.
type plan struct {
	dir       posix.Ino // of the one directory
	more      posix.Ino // has the directories of the others
	directory int       // files in the one directory, at most
}

// branch is the number of files in each of the other directories.
const branch = 1000

// commitEvery bounds the writes that fill holds in memory, in files.
const commitEvery = 10000

// nameOf returns the name of a file.
func nameOf(i int) string { return fmt.Sprintf("file-%08d", i) }

// branchOf returns the name of the directory of a file that is not in the one directory.
func branchOf(i int) string { return fmt.Sprintf("branch-%06d", i/branch) }

// openStore opens the store of a stopped replica.
func openStore(dir string) (*kv.Store, error) {
	keys, err := kv.Open(dir, kv.Options{WriteBuffer: 32 << 20})
	if err != nil {
		return nil, err
	}
	if err := replica.KeepDigest(keys); err != nil {
		return nil, errors.Join(err, keys.Close())
	}
	return keys, nil
}

// sumOf returns the digest of the store of a stopped replica.
func sumOf(dir string) (sum digest.Sum, err error) {
	keys, err := openStore(dir)
	if err != nil {
		return sum, err
	}
	return keys.Digest(), keys.Close()
}

// fill makes the files from number from on, below number to, in the store of a stopped replica.
func (p *plan) fill(ctx context.Context, store string, partition uint16, from, to int) (err error) {
	keys, err := openStore(store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keys.Close()) }()
	m, err := meta.New(keys, meta.Config{Partition: partition})
	if err != nil {
		return err
	}
	var parent posix.Ino
	for i := from; i < to; i++ {
		switch {
		case i < p.directory:
			parent = p.dir
		case i%branch == 0 || i == from:
			if parent, err = makeOne(m, p.more, branchOf(i), posix.TypeDir|0o755); err != nil {
				return err
			}
		}
		if _, err := makeOne(m, parent, nameOf(i), posix.TypeRegular|0o644); err != nil {
			return err
		}
		if i%commitEvery == 0 {
			if err := errors.Join(keys.Commit(false), ctx.Err()); err != nil {
				return err
			}
		}
	}
	return keys.Commit(true)
}

// made is the time of all files.
const made posix.Time = 1_700_000_000_000_000_000

// makeOne makes a file or a directory, which may exist.
func makeOne(m *meta.Machine, parent posix.Ino, name string, mode posix.Mode) (posix.Ino, error) {
	c := meta.Command{Op: meta.OpMknod, Ino: parent, Name: name, Mode: mode, Time: made}
	r := m.Apply(&c, 0)
	if r.Code == posix.EEXIST {
		r = m.Query(&meta.Command{Op: meta.OpLookup, Ino: parent, Name: name})
	}
	if r.Code != posix.OK {
		return 0, fmt.Errorf("make %s in inode %d: %w", name, parent, r.Code)
	}
	return r.Attr.Ino, nil
}
