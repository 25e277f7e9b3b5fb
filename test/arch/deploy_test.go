package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// composeFile is the part of the file that the test checks.
type composeFile struct {
	Services map[string]struct {
		User    string   `yaml:"user"`
		Command any      `yaml:"command"`
		Volumes []string `yaml:"volumes"`
	} `yaml:"services"`
}

// Only the container that makes certificates has the keys of the CAs. Servers run as their own user, each
// with its own certificate.
func TestComposeKeepsTheCAApart(t *testing.T) {
	text, err := os.ReadFile("../../deploy/docker/compose.yml")
	require.NoError(t, err)
	var c composeFile
	require.NoError(t, yaml.Unmarshal(text, &c))
	holders := map[string][]string{} // services by volume
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			holders[volume] = append(holders[volume], name)
		}
		if command, ok := s.Command.(string); ok && strings.HasPrefix(command, "server ") {
			require.Equal(t, "globalfs", s.User, name)
			require.True(t, slices.ContainsFunc(s.Volumes, func(v string) bool { return strings.HasPrefix(v, name+":") }), name)
		}
	}
	require.Equal(t, []string{"setup"}, holders["ca"])
	for _, server := range []string{"us-west-2a", "us-east-1a", "eu-west-1a", "client", "operator"} {
		require.ElementsMatch(t, []string{"setup", server}, holders[server])
	}
}

// systemd accepts the unit of a server. The unit has its own user and a low exposure.
func TestUnitIsSandboxed(t *testing.T) {
	text, err := os.ReadFile("../../deploy/systemd/globalfs@.service")
	require.NoError(t, err)
	require.Contains(t, string(text), "\nUser=globalfs\n")
	require.Contains(t, string(text), "\nCapabilityBoundingSet=\n")
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	here := strings.NewReplacer("/usr/local/bin/globalfs", "/bin/true", "=globalfs\n", "=daemon\n", "Documentation=", "#").Replace(string(text))
	unit := filepath.Join(t.TempDir(), "globalfs@.service")
	require.NoError(t, os.WriteFile(unit, []byte(here), 0o644))
	out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "Unknown")
	out, err = exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=25", unit).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
