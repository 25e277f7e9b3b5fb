package arch

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
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

// plainPages are the pages in the plain register (CONTRIBUTING.md).
var plainPages = []string{"README.md", "docs/commands.md", "docs/consistency.md", "docs/glossary.md", "docs/install.md", "docs/quickstart-three-hosts.md", "docs/troubleshooting.md"}

// relatives are pronouns that stand for a noun that the sentence should name.
var relatives = regexp.MustCompile(`(?i)\b(what|who|whose|whom|whatever|whoever)\b`)

// maxRelatives is the maximum number of relatives in 1,000 words.
const maxRelatives = 4.0

// TestPlainLanguage: pages for users name things by nouns.
func TestPlainLanguage(t *testing.T) {
	for _, name := range plainPages {
		text, err := os.ReadFile(filepath.Join("../..", name))
		require.NoError(t, err)
		found := relatives.FindAllIndex(text, -1)
		per := 1000 * float64(len(found)) / float64(len(bytes.Fields(text)))
		var where []string
		for _, at := range found {
			where = append(where, string(text[max(0, at[0]-40):min(len(text), at[1]+40)]))
		}
		assert.LessOrEqual(t, per, maxRelatives, "%s: %.1f of what, who, whose in 1,000 words: name the thing by a noun: %q", name, per, where)
	}
}
