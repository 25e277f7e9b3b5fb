package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock of a server is wrong. The cluster works on, and status names the server until its clock is right.
func TestAWrongClock(t *testing.T) {
	v := newVictim(t)
	v.write(t, 3)
	v.awaitHealthy(t)
	wrong := v.Servers["westb"]
	for ahead, said := range map[string]string{"90s": "westb is 1m30s ahead of most servers", "-2h": "westb is 2h0m0s behind most servers"} {
		require.NoError(t, wrong.Stop())
		wrong.Env = []string{"GLOBALFS_TEST_CLOCK_AHEAD=" + ahead}
		require.NoError(t, wrong.Start(t.Context()))
		v.write(t, 3)
		var out string
		require.Eventually(t, func() bool {
			out, _ = v.Admin(t.Context(), "status")
			return strings.Contains(out, "CLOCKS_DIFFER") && strings.Contains(out, said)
		}, long, 200*time.Millisecond, "%s", func() string { return out }())
		v.check(t)
	}
	require.NoError(t, wrong.Stop())
	wrong.Env = nil
	require.NoError(t, wrong.Start(t.Context()))
	v.awaitHealthy(t)
	v.write(t, 3)
	v.check(t)
}
