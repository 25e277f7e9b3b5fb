package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/meta"
)

func TestVersion(t *testing.T) {
	require.Regexp(t, `^globalfs \S+\ncommit \S+.*\ngo1\S+, linux/\w+\nwire format \d+, metadata format \d+\n$`, run(t, "version"))
	var v versionInfo
	require.NoError(t, json.Unmarshal([]byte(run(t, "version", "-o", "json")), &v))
	require.Equal(t, meta.FormatVersion, v.Metadata)
	fails(t, command.ExitInput, "version", "-o", "xml")
}

// A misspelt command or subcommand gets a suggestion; a word that resembles no command gets none.
func TestDidYouMean(t *testing.T) {
	require.Contains(t, fails(t, command.ExitUsage, "umont", "a", "b"), `unknown command "umont", did you mean mount or umount`)
	require.Contains(t, fails(t, command.ExitUsage, "certs", "servrs"), "did you mean server")
	require.NotContains(t, fails(t, command.ExitUsage, "frobnicate"), "did you mean")
}

// The shell completes values of flags.
func TestCompletionOfValues(t *testing.T) {
	require.Contains(t, run(t, "__complete", "status", "-o", ""), "json\n")
	require.Contains(t, run(t, "__complete", "dev", "--durability", "s"), "sync\n")
	require.Contains(t, run(t, "__complete", "--log-level", ""), "debug\n")
}
