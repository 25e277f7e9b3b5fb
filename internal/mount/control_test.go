package mount

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

func (m *mounted) get(t *testing.T, name, attribute string) string {
	t.Helper()
	value := make([]byte, posix.MaxXattr)
	n, err := unix.Getxattr(m.path(name), attribute, value)
	require.NoError(t, err, attribute)
	return string(value[:n])
}

func (m *mounted) set(name, attribute, value string) error {
	return unix.Setxattr(m.path(name), attribute, []byte(value), 0)
}

func decode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &value), text)
	return value
}

func (m *mounted) where(t *testing.T, name string) Where {
	t.Helper()
	return decode[Where](t, m.get(t, name, XattrWhere))
}

func TestWhere(t *testing.T) {
	m := mountHere(t)
	m.write(t, "f", "")
	m.write(t, "us-east-1/f", "")
	require.Equal(t, "global", m.get(t, "f", XattrRegion))
	require.Equal(t, "us-east-1", m.get(t, "us-east-1/f", XattrRegion))
	for name, partition := range map[string]uint16{"f": 0, "us-west-2": 1, "us-east-1/f": 2} {
		w := m.where(t, name)
		plan := m.Plan.Partitions[partition]
		require.Equal(t, m.stat(t, name).Ino, w.Inode)
		require.Equal(t, partition, w.Partition)
		require.Len(t, w.Replicas, len(plan.Replicas))
		require.Equal(t, plan.Replicas[0].Server, w.Replicas[0].Server)
		require.NotEmpty(t, w.Why)
		require.Nil(t, w.Rule)
		require.Nil(t, w.Task)
	}
	age, err := strconv.Atoi(m.get(t, "f", XattrStale))
	require.NoError(t, err)
	require.GreaterOrEqual(t, age, 0)
	require.Equal(t, spec.Regions, decode[[]topology.Region](t, m.get(t, "f", XattrRegions)))
	before := decode[Counters](t, m.get(t, "f", XattrCounters))
	require.Equal(t, os.Getpid(), before.PID)
	require.Len(t, before.Servers, len(m.Plan.Servers))
	m.write(t, "counted", "")
	after := decode[Counters](t, m.get(t, "f", XattrCounters))
	require.Greater(t, after.Requests, before.Requests)
	require.Greater(t, after.Commands, before.Commands)
}

// A program that copies attributes does not copy these, and attributes that accept no value return an error.
func TestControlAttributesAreApart(t *testing.T) {
	m := mountHere(t)
	m.write(t, "f", "")
	size, err := unix.Listxattr(m.path("f"), nil)
	require.NoError(t, err)
	require.Zero(t, size)
	for _, name := range []string{"globalfs.", "globalfs.none", "globalfs.tasks.-1", "globalfs.placements.x"} {
		_, err := unix.Getxattr(m.path("f"), name, nil)
		require.ErrorIs(t, err, unix.EOPNOTSUPP, name)
	}
	for _, name := range []string{XattrWhere, XattrToken, XattrTasks, "globalfs.none"} {
		require.ErrorIs(t, m.set("f", name, "x"), unix.EOPNOTSUPP, name)
		require.ErrorIs(t, unix.Removexattr(m.path("f"), name), unix.EOPNOTSUPP, name)
	}
	for _, name := range []string{XattrPlace, XattrTask} {
		_, err := unix.Getxattr(m.path("f"), name, nil)
		require.ErrorIs(t, err, unix.ENODATA, name)
	}
}

func TestPlace(t *testing.T) {
	m := mountHere(t)
	require.NoError(t, os.MkdirAll(m.path("eu/d"), 0o755))
	require.NoError(t, m.set("eu/d", XattrRegion, "us-east-1\n"))
	m.write(t, "eu/d/f", "content")
	require.Equal(t, "us-east-1", m.get(t, "eu/d/f", XattrRegion))
	require.Equal(t, "content", m.read(t, "eu/d/f"))
	ino := m.stat(t, "eu/d").Ino
	w := m.where(t, "eu/d")
	require.Equal(t, &Rule{Region: "us-east-1"}, w.Rule)
	require.Equal(t, &Task{Inode: ino, Target: "us-east-1"}, w.Task, "and what is there is to move")
	require.Equal(t, []Placement{{Inode: ino, Path: "/eu/d", Target: "us-east-1", Rule: Rule{Region: "us-east-1"}}},
		decode[[]Placement](t, m.get(t, "eu", XattrPlacements)))
	require.Equal(t, []Task{{Inode: ino, Path: "/eu/d", Target: "us-east-1"}}, decode[[]Task](t, m.get(t, "eu", XattrTasks)))
	require.Equal(t, "[]", m.get(t, "eu", PageOf(XattrTasks, 1)), "no more of them")

	require.NoError(t, m.set("eu/d", XattrTask, TaskPause))
	require.True(t, decode[Task](t, m.get(t, "eu/d", XattrTask)).Paused)
	require.NoError(t, m.set("eu/d", XattrTask, TaskResume))
	require.False(t, m.where(t, "eu/d").Task.Paused)
	require.ErrorIs(t, m.set("eu/d", XattrTask, "stop"), unix.EINVAL)
	require.ErrorIs(t, m.set("eu", XattrTask, TaskPause), unix.ENODATA)

	target := m.Plan.Partitions[2]
	_, err := m.client.Move(t.Context(), posix.Ino(ino), target.ID)
	require.NoError(t, err)
	require.Equal(t, target.ID, m.where(t, "eu/d").Partition)
	require.NotNil(t, m.where(t, "eu/d").Task, "the directory has gone ahead")
	require.NoError(t, m.set("eu/d", XattrTask, TaskPause))
	require.True(t, m.where(t, "eu/d").Task.Paused)

	require.NoError(t, unix.Removexattr(m.path("eu/d"), XattrRegion))
	require.Nil(t, m.where(t, "eu/d").Rule)
	m.write(t, "eu/d/g", "")
	require.Equal(t, "us-east-1", m.get(t, "eu/d/g", XattrRegion), "where the directory is")
	require.Equal(t, "[]", m.get(t, "eu", XattrPlacements))
}

func TestPlaceRicher(t *testing.T) {
	m := mountHere(t)
	require.NoError(t, os.Mkdir(m.path("d"), 0o755))
	require.NoError(t, m.set("d", XattrPlace, `{"spread": ["us-west-2", "us-east-1"]}`))
	require.Equal(t, Rule{Spread: spec.Regions}, decode[Rule](t, m.get(t, "d", XattrPlace)))
	require.Nil(t, m.where(t, "d").Task, "only what is new")
	found := map[string]int{}
	for i := range 20 {
		name := "d/" + strconv.Itoa(i)
		m.write(t, name, "")
		found[m.get(t, name, XattrRegion)]++
	}
	require.Len(t, found, 2, "%v", found)
	require.NotContains(t, found, "global")

	require.NoError(t, m.set("d", XattrPlace, `{"region": "global"}`))
	require.Equal(t, `{"region":"global"}`, m.get(t, "d", XattrPlace))
	require.NoError(t, m.set("d", XattrPlace, ""))
	require.Nil(t, m.where(t, "d").Rule)
	for _, wrong := range []string{`{"regions": "us-west-2"}`, `{"region": "mars"}`, `{"region": 1}`, "us-west-2", `{} {}`} {
		require.ErrorIs(t, m.set("d", XattrPlace, wrong), unix.EINVAL, wrong)
	}
	require.ErrorIs(t, m.set("d", XattrRegion, "mars"), unix.EINVAL)
	require.Nil(t, m.where(t, "d").Rule)
}

func TestWhoMayPlace(t *testing.T) {
	m := mountHere(t)
	m.write(t, "f", "")
	require.ErrorIs(t, m.set("f", XattrRegion, "us-east-1"), unix.ENOTDIR)
	for name, mode := range map[string]os.FileMode{"open": 0o777, "closed": 0o755, "own": 0o755} {
		require.NoError(t, os.Mkdir(m.path(name), 0))
		require.NoError(t, os.Chmod(m.path(name), mode))
	}
	require.NoError(t, os.Chown(m.path("own"), nobody, nobody))
	place := func(name string) func() error {
		return func() error { return m.set(name, XattrRegion, "us-east-1") }
	}
	asNobodyFails(t, unix.EPERM, place("open"))
	asNobodyFails(t, unix.EACCES, place("closed"))
	asNobody(t, place("own"))
	asNobodyFails(t, unix.EPERM, func() error { return m.set("open", XattrTask, TaskPause) })
	require.NoError(t, m.set("closed", XattrRegion, "us-east-1"))
	var seen string
	asNobody(t, func() error {
		value := make([]byte, posix.MaxXattr)
		n, err := unix.Getxattr(m.dir, XattrPlacements, value)
		seen = string(value[:max(n, 0)])
		return err
	})
	require.Contains(t, seen, `"path":"/own"`)
	require.NotContains(t, seen, "/closed", "names of others are theirs")
	require.Len(t, decode[[]Placement](t, seen), 2)
	require.Nil(t, m.where(t, "open").Rule)
}

// A mount that waits for the token of another mount sees its updates, whatever the kernel has cached.
func TestWait(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	a, b := mountOf(t, n), mountOf(t, n)
	a.write(t, "f", "old")
	require.NoError(t, b.set("", XattrWait, a.get(t, "", XattrToken)))
	require.Equal(t, "old", b.read(t, "f"))
	held, err := os.Open(b.path("f"))
	require.NoError(t, err)
	defer held.Close()
	b.stat(t, "f") // the kernel believes now that the name is there
	require.NoError(t, os.Chmod(a.path("f"), 0o600))
	a.write(t, "f", "newer")
	require.NoError(t, os.Rename(a.path("f"), a.path("g")))
	require.NoError(t, b.set("", XattrWait, a.get(t, "g", XattrToken)+"\n"))
	require.ErrorIs(t, unix.Lstat(b.path("f"), &unix.Stat_t{}), unix.ENOENT)
	require.EqualValues(t, unix.S_IFREG|0o600, b.stat(t, "g").Mode)
	content := make([]byte, 10)
	read, err := held.ReadAt(content, 0)
	require.Equal(t, "newer", string(content[:read]), "%v", err)
	for _, wrong := range []string{"", "???", strings.Repeat("A", 1000)} {
		require.ErrorIs(t, b.set("", XattrWait, wrong), unix.EINVAL, wrong)
	}
}

// The wait lasts as long as the replica that this mount reads from has not caught up.
func TestWaitForAReplica(t *testing.T) {
	n := clienttest.New(t, topology.Spec{Regions: spec.Regions[:1], Datacenters: 3, Replicas: 3, Copies: 1}, time.Minute)
	a, b := mountOf(t, n), mountOf(t, n)
	b.stat(t, "")
	replicas := n.Processes(0, "us-west-2")
	a.write(t, "f", "new")
	token := a.get(t, "", XattrToken)
	n.Fail(clienttest.Silent, replicas...)
	before := n.Calls(replicas...)
	done := make(chan error, 1)
	go func() { done <- b.set("", XattrWait, token) }()
	n.AwaitCalls(before+1, replicas...)
	select {
	case err := <-done:
		require.Fail(t, "nobody has answered", "%v", err)
	default:
	}
	n.Fail(clienttest.None, replicas...)
	require.NoError(t, <-done)
	require.Equal(t, "new", b.read(t, "f"))
}

// A list that is longer than an attribute comes in pages, each entry once.
func TestPages(t *testing.T) {
	all := make([]int, 30_000)
	for i := range all {
		all[i] = i
	}
	var got []int
	for {
		text, err := page(all, len(got), func(i *int) int { return *i })
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), posix.MaxXattr)
		rows := decode[[]int](t, string(text))
		if len(rows) == 0 {
			break
		}
		require.Less(t, len(rows), len(all))
		got = append(got, rows...)
	}
	require.Equal(t, all, got)
}
