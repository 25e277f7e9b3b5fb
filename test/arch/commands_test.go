package arch

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/cli"
)

const commandsPage = "../../docs/commands.md"

// TestCommandsPage: docs/commands.md has the help texts of the commands. With -update the test writes the
// page.
func TestCommandsPage(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", "")
	dir := t.TempDir()
	path := filepath.Join(dir, "commands.md")
	var out bytes.Buffer
	require.Zero(t, cli.Main([]string{"man", "--markdown", path, dir}, &out, &out), out.String())
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(commandsPage, page, 0o644))
	}
	written, err := os.ReadFile(commandsPage)
	require.NoError(t, err)
	require.True(t, bytes.Equal(page, written), "docs/commands.md differs from the help texts: go test ./test/arch -run TestCommandsPage -update")
}

// TestMountOptionsPage: docs/mount-options.md has a row for each flag of `globalfs mount` but the option -o
// itself, and no other rows.
func TestMountOptionsPage(t *testing.T) {
	commands, err := os.ReadFile(commandsPage)
	require.NoError(t, err)
	_, section, found := strings.Cut(string(commands), "\n## globalfs mount\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var flags []string
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-., )?--([a-z-]+) `).FindAllStringSubmatch(section, -1) {
		if m[1] != "option" {
			flags = append(flags, m[1])
		}
	}
	page, err := os.ReadFile("../../docs/mount-options.md")
	require.NoError(t, err)
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, m[1])
	}
	require.NotEmpty(t, flags)
	require.ElementsMatch(t, flags, rows)
}
