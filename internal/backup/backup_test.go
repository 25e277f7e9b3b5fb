package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// fakeCluster is a cluster that does not change: a file with blocks in the global partition.
type fakeCluster struct {
	plan    *topology.Cluster
	stores  []*kv.Store
	copied  atomic.Int64
	onBlock func() error // nil: blocks are there
}

const fakeBlocks = 40

func newFakeCluster(t *testing.T) *fakeCluster {
	t.Helper()
	spec := topology.DefaultSpec()
	plan, err := spec.Plan()
	require.NoError(t, err)
	c := &fakeCluster{plan: plan}
	var births []meta.Birth
	for _, p := range plan.Partitions[1:] {
		births = append(births, meta.Birth{Name: string(p.Region), Ino: p.Root()})
	}
	for _, p := range plan.Partitions {
		cfg := meta.Config{Partition: p.ID}
		if p.ID == 0 {
			cfg.Genesis = births
		}
		keys := kv.NewMemory()
		m, err := meta.New(keys, cfg)
		require.NoError(t, err)
		if p.ID == 0 {
			fill(t, m)
		}
		c.stores = append(c.stores, keys)
	}
	return c
}

func fill(t *testing.T, m *meta.Machine) {
	t.Helper()
	counter := uint64(0)
	apply := func(command meta.Command) meta.Result {
		counter++
		command.Session = 1
		r := m.Apply(&command, counter)
		require.Equal(t, posix.OK, r.Code)
		return r
	}
	ino := apply(meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "file", Mode: 0o644}).Attr.Ino
	for i := range uint64(fakeBlocks) {
		apply(meta.Command{Op: meta.OpWrite, Ino: ino, Offset: i * 100, Blocks: []meta.Block{{ID: posix.MakeBlockID(0, 1, i+1), Length: 100}}})
	}
}

func (c *fakeCluster) Plan() *topology.Cluster     { return c.plan }
func (c *fakeCluster) Name() string                { return "fake" }
func (c *fakeCluster) Check(context.Context) error { return nil }

func (c *fakeCluster) Mark(ctx context.Context, _ uint16, number uint64, _ bool) (uint64, error) {
	return number, ctx.Err()
}

func (c *fakeCluster) State(_ context.Context, partition uint16, _ uint64, into io.Writer) error {
	return meta.Snapshot(c.stores[partition], into)
}

func (c *fakeCluster) Block(ctx context.Context, _ uint16, id posix.BlockID) ([]byte, error) {
	c.copied.Add(1)
	if c.onBlock != nil {
		if err := c.onBlock(); err != nil {
			return nil, err
		}
	}
	return fmt.Append(nil, "content of ", id), ctx.Err()
}

func (c *fakeCluster) PutBlock(context.Context, uint16, posix.BlockID, []byte) error { return nil }

// A backup that is interrupted while blocks are copied does not exist. The next one copies only the blocks
// that are missing.
func TestInterruptedBackup(t *testing.T) {
	dir := t.TempDir()
	r, err := OpenDirectory(dir, true)
	require.NoError(t, err)
	c := newFakeCluster(t)
	ctx, interrupt := context.WithCancel(t.Context())
	c.onBlock = func() error {
		if c.copied.Load() == fakeBlocks/2 {
			interrupt()
		}
		return nil
	}
	scratch := t.TempDir()
	_, err = r.Create(ctx, c, Options{Scratch: scratch})
	require.ErrorIs(t, err, context.Canceled)
	all, unreadable, err := r.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	require.Empty(t, unreadable)
	_, err = r.Find(t.Context(), "")
	require.ErrorContains(t, err, "no backup is complete there")
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left, "temporary files are removed")

	c.onBlock = nil
	c.copied.Store(0)
	m, err := r.Create(t.Context(), c, Options{Scratch: scratch})
	require.NoError(t, err)
	require.EqualValues(t, fakeBlocks, m.BlockCount)
	require.Positive(t, c.copied.Load())
	require.Less(t, c.copied.Load(), int64(fakeBlocks))
	report, err := r.Verify(t.Context(), "", Options{Scratch: scratch})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.EqualValues(t, fakeBlocks, report.Read)
}

// A block that the cluster cannot give fails the backup.
func TestBackupWithoutABlock(t *testing.T) {
	r, err := OpenDirectory(t.TempDir(), true)
	require.NoError(t, err)
	c := newFakeCluster(t)
	c.onBlock = func() error { return posix.EIO }
	_, err = r.Create(t.Context(), c, Options{Scratch: t.TempDir()})
	require.ErrorIs(t, err, posix.EIO)
	all, unreadable, err := r.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	require.Empty(t, unreadable)
}

// Verify reports blocks that are damaged or missing, and fails if metadata or a manifest are damaged.
func TestVerifySeesDamage(t *testing.T) {
	dir := t.TempDir()
	r, err := OpenDirectory(dir, true)
	require.NoError(t, err)
	m, err := r.Create(t.Context(), newFakeCluster(t), Options{Scratch: t.TempDir()})
	require.NoError(t, err)
	verify := func() (*Report, error) { return r.Verify(t.Context(), m.ID, Options{Scratch: t.TempDir()}) }

	damaged := filepath.Join(dir, blockName(posix.MakeBlockID(0, 1, 1)))
	b, err := os.ReadFile(damaged)
	require.NoError(t, err)
	b[len(b)-1]++
	require.NoError(t, os.WriteFile(damaged, b, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, blockName(posix.MakeBlockID(0, 1, 2)))))
	report, err := verify()
	require.NoError(t, err)
	require.Len(t, report.Problems, 2)
	require.EqualValues(t, fakeBlocks-2, report.Read)

	for _, name := range []string{chunkName(m.Partitions[0].Chunks[0]), manifestName(m.ID)} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		was := b[len(b)/2]
		b[len(b)/2]++
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		_, err = verify()
		require.ErrorContains(t, err, name+" is damaged")
		b[len(b)/2] = was
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	_, err = verify()
	require.NoError(t, err)
}

// A damaged manifest does not hide the other backups.
func TestListWithADamagedManifest(t *testing.T) {
	dir := t.TempDir()
	r, err := OpenDirectory(dir, true)
	require.NoError(t, err)
	var ids []string
	for range 2 {
		m, err := r.Create(t.Context(), newFakeCluster(t), Options{Scratch: t.TempDir()})
		require.NoError(t, err)
		ids = append(ids, m.ID)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifestName(ids[1])), []byte("rotten"), 0o600))
	all, unreadable, err := r.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.ErrorContains(t, errors.Join(unreadable...), manifestName(ids[1])+" is damaged")
	m, err := r.Find(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, ids[0], m.ID)
	require.NoError(t, os.Remove(filepath.Join(dir, manifestName(ids[0]))))
	_, err = r.Find(t.Context(), "")
	require.ErrorContains(t, err, "is damaged")
}

// A cluster file with other regions, or with the same ones in another order, cannot take a backup. Nothing is
// left in the directories.
func TestRestoreIntoOtherRegions(t *testing.T) {
	r, err := OpenDirectory(t.TempDir(), true)
	require.NoError(t, err)
	_, err = r.Create(t.Context(), newFakeCluster(t), Options{Scratch: t.TempDir()})
	require.NoError(t, err)
	spec := topology.DefaultSpec()
	spec.Regions[0], spec.Regions[1] = spec.Regions[1], spec.Regions[0]
	fewer := spec
	fewer.Regions = spec.Regions[1:]
	dir := filepath.Join(t.TempDir(), "server")
	for _, spec := range []topology.Spec{spec, fewer} {
		plan, err := spec.Plan()
		require.NoError(t, err)
		_, err = r.RestoreMetadata(t.Context(), "", spec, map[string]string{plan.Servers[0].Name: dir}, testMark, Options{Scratch: t.TempDir()})
		require.ErrorContains(t, err, "name the same regions in the same order")
		require.NoDirExists(t, dir)
	}
}

// A restore that fails in the directory of one server leaves none in the others.
func TestRestoreFailsAsAWhole(t *testing.T) {
	r, err := OpenDirectory(t.TempDir(), true)
	require.NoError(t, err)
	_, err = r.Create(t.Context(), newFakeCluster(t), Options{Scratch: t.TempDir()})
	require.NoError(t, err)
	spec := topology.DefaultSpec()
	plan, err := spec.Plan()
	require.NoError(t, err)
	base := t.TempDir()
	dirs := map[string]string{plan.Servers[0].Name: filepath.Join(base, "first")}
	for _, s := range plan.Servers[1:] {
		dirs[s.Name] = filepath.Join(base, s.Name)
	}
	last := dirs[plan.Servers[len(plan.Servers)-1].Name]
	require.NoError(t, os.Symlink(filepath.Join(base, "none", "none"), last))
	restore := func() error {
		_, err := r.RestoreMetadata(t.Context(), "", spec, dirs, testMark, Options{Scratch: t.TempDir()})
		return err
	}
	require.ErrorContains(t, restore(), "file exists")
	require.NoFileExists(t, filepath.Join(base, "first", testMark.File))
	require.NoError(t, os.Remove(last))
	require.NoError(t, restore(), "nothing is in the way")
}

var testMark = Mark{File: "restored", Incomplete: "incomplete"}

// A chunk or a block that is damaged in the repository, or that cannot be read, is stored again by the next
// backup.
func TestBackupReplacesWhatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	r, err := OpenDirectory(dir, true)
	require.NoError(t, err)
	c := newFakeCluster(t)
	m, err := r.Create(t.Context(), c, Options{Scratch: t.TempDir()})
	require.NoError(t, err)
	for _, name := range []string{chunkName(m.Partitions[0].Chunks[0]), blockName(posix.MakeBlockID(0, 1, 1))} {
		for _, size := range []int64{0, 10} {
			require.NoError(t, os.Truncate(filepath.Join(dir, name), size))
			c.copied.Store(0)
			m, err = r.Create(t.Context(), c, Options{Scratch: t.TempDir()})
			require.NoError(t, err)
			require.Positive(t, m.NewBytes)
			require.LessOrEqual(t, c.copied.Load(), int64(1), "what is intact is not copied again")
			report, err := r.Verify(t.Context(), m.ID, Options{Scratch: t.TempDir()})
			require.NoError(t, err)
			require.Empty(t, report.Problems)
		}
	}
	m, err = r.Create(t.Context(), c, Options{Scratch: t.TempDir()})
	require.NoError(t, err)
	require.Zero(t, m.NewBytes)
}

// A restore that is interrupted at any point leaves a directory without anything of a partition, one that
// says that it is incomplete, or a complete one.
func TestInterruptedRestore(t *testing.T) {
	r, err := OpenDirectory(t.TempDir(), true)
	require.NoError(t, err)
	c := newFakeCluster(t)
	m, err := r.Create(t.Context(), c, Options{Scratch: t.TempDir()})
	require.NoError(t, err)
	name := c.plan.Servers[0].Name
	dirs := map[string]string{name: filepath.Join(t.TempDir(), "server")}
	marked := func() string {
		text, _ := os.ReadFile(filepath.Join(dirs[name], testMark.File))
		return string(text)
	}

	// A restore that fails in its middle sees the mark, and removes it with all else.
	x, err := r.open(t.Context(), m.ID, &Options{Scratch: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, x.close()) }()
	state := filepath.Join(partitionDir(x.dir, 0), "state")
	require.NoError(t, os.Rename(state, state+".away"))
	require.Error(t, x.install(c.plan, nil, name, dirs[name], testMark))
	require.Equal(t, "incomplete\n", marked(), "as a restore leaves it that is killed")
	_, err = r.RestoreMetadata(t.Context(), m.ID, topology.DefaultSpec(), dirs, testMark, Options{Scratch: t.TempDir()})
	require.ErrorContains(t, err, "remove the directory and restore again")
	require.NoError(t, x.uninstall(dirs[name], testMark))
	left, err := os.ReadDir(dirs[name])
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, os.Rename(state+".away", state))

	_, err = r.RestoreMetadata(t.Context(), m.ID, topology.DefaultSpec(), dirs, testMark, Options{Scratch: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, m.ID+"\n", marked())
}
