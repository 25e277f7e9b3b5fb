package arch

import (
	"bytes"
	"os"
	"path/filepath"
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
