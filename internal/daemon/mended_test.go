package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/logged"
)

// flip inverts a bit in the middle of each file.
func flip(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotEmpty(t, b, path)
		b[len(b)/2] ^= 0x10
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
}

// A server starts although a bit of each of its small files is inverted, or of each of their copies.
// Afterwards the files have their old content, and the log names the damaged ones.
func TestDamagedNotes(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 1)
	const name = "westa"
	w.start(name)
	made := contents{}
	made.write(t, w.client(w.access(identity.Client, "c")), posix.Root, 3)
	w.halt(name)
	dir := w.dir(name)
	var notes, copies []string
	for _, note := range []string{ownerFile, specFile, "incarnation", "partition-0/" + processFile, "partition-1/" + processFile} {
		notes = append(notes, filepath.Join(dir, note))
		copies = append(copies, filepath.Join(dir, note+".copy"))
	}
	content := func(path string) string {
		b, err := os.ReadFile(path)
		require.NoError(t, err, path)
		return string(b)
	}
	incarnation := func() uint64 {
		n, err := server.LastIncarnation(dir)
		require.NoError(t, err)
		return n
	}
	for _, bad := range [][]string{notes, copies, notes} {
		before := map[string]string{}
		for _, note := range notes {
			before[note] = content(note)
		}
		last := incarnation()
		flip(t, bad...)
		w.start(name)
		made.check(t, w.client(w.access(identity.Client, "c")), posix.Root)
		w.halt(name)
		require.Greater(t, incarnation(), last)
		for _, note := range notes {
			if filepath.Base(note) != "incarnation" {
				require.Equal(t, before[note], content(note), note)
			}
		}
	}
	var log logged.Text
	d, err := loadCopy(dir)
	require.NoError(t, err)
	logMended(dir, d, log.Logger())
	for _, note := range notes {
		require.Contains(t, log.String(), note+durable.DamagedSuffix)
	}
}

// A server reads the newest description that it has saved, if either one of the two copies is damaged.
func TestDamagedDescription(t *testing.T) {
	spec := topology.DefaultSpec()
	spec.Addresses = map[string]string{}
	plan, err := spec.Plan()
	require.NoError(t, err)
	for i, s := range plan.Servers {
		spec.Addresses[s.Name] = "127.0.0.1:" + string(rune('1'+i%9)) + "001"
	}
	dir := t.TempDir()
	path := filepath.Join(dir, specFile)
	for version := range uint64(2) {
		spec.Version = version + 1
		d, err := describe(spec)
		require.NoError(t, err)
		require.NoError(t, saveCopy(dir, d))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, damaged := range []string{path, path + ".copy"} {
		good, err := os.ReadFile(damaged)
		require.NoError(t, err)
		for at := 0; at < len(good); at += 13 {
			bad := bytes.Clone(good)
			bad[at] ^= 0x01
			require.NoError(t, os.WriteFile(damaged, bad, 0o600))
			d, err := loadCopy(dir)
			require.NoError(t, err)
			require.Equal(t, string(want), string(d.text), "byte %d", at)
			mended, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), string(mended))
		}
	}
	for _, p := range []string{path, path + ".copy"} {
		require.NoError(t, os.WriteFile(p, []byte("x"), 0o600))
	}
	_, err = loadCopy(dir)
	require.ErrorContains(t, err, "remove it, and its copy")
}
