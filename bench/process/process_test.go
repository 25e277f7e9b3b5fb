package process

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// asReplica makes this test binary a replica.
const asReplica = "GLOBALFS_BENCH_TEST_REPLICA"

func TestMain(m *testing.M) {
	if os.Getenv(asReplica) != "" {
		if err := Replica(context.Background(), os.Stdin, os.Stdout); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func config(t *testing.T, shape, outstanding int) Config {
	self, err := os.Executable()
	require.NoError(t, err)
	return Config{
		Program: []string{self}, Environment: []string{asReplica + "=1"},
		Shape: Shapes()[shape], Outstanding: outstanding, Duration: 200 * time.Millisecond, Payload: 64,
		Durability: wal.OS, Dir: t.TempDir(),
	}
}

func TestEveryShapeDelivers(t *testing.T) {
	for i, shape := range Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			cfg := config(t, i, 16)
			cfg.Durability = wal.Memory
			cfg.Messages = 100 // also on a slow machine
			point, err := Run(t.Context(), cfg)
			require.NoError(t, err)
			require.GreaterOrEqual(t, point.Messages, uint64(100))
			require.Positive(t, point.P50)
			left, err := os.ReadDir(cfg.Dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestRunsToACount(t *testing.T) {
	cfg := config(t, 0, 16)
	cfg.Messages = 100
	point, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.GreaterOrEqual(t, point.Messages, uint64(100))
}

func TestKillLosesNothing(t *testing.T) {
	for _, role := range []string{RoleFollower, RolePrimary, RoleSender} {
		t.Run(role, func(t *testing.T) {
			cfg := config(t, 1, 32)
			cfg.Down = 100 * time.Millisecond
			death, err := Kill(t.Context(), cfg, role)
			require.NoError(t, err)
			require.Len(t, death.Gaps, 5)
			require.Positive(t, death.Messages[1])
		})
	}
}

func TestEndsWithItsContext(t *testing.T) {
	cfg := config(t, 0, 1)
	cfg.Duration = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Warmup = time.Hour
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := Run(ctx, cfg)
	require.Error(t, err)
	left, err := os.ReadDir(cfg.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestSenderTellsMessagesApart(t *testing.T) {
	var s sender
	require.True(t, s.mark(1<<32))
	require.True(t, s.mark(1<<32+2))
	require.False(t, s.mark(1<<32))
	require.True(t, s.mark(1<<32+1))
	require.False(t, s.mark(1<<32+1))
	require.True(t, s.mark(1<<32+recent+1))
	require.False(t, s.mark(1<<32+1), "too old to tell")
	require.False(t, s.mark(1<<32+2), "still known")
	require.True(t, s.mark(1<<32+3))
	require.EqualValues(t, 5, s.Count)
}

func TestLedgerFindsViolations(t *testing.T) {
	l := ledger{Senders: map[multicast.ProcessID]*sender{}}
	at := func(final multicast.Timestamp, seq uint64) *multicast.Delivery {
		return &multicast.Delivery{Message: multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: seq}}, Final: final}
	}
	l.deliver(at(1, 1), multicast.Position{})
	l.deliver(at(2, 2), multicast.Position{})
	require.Empty(t, l.Violations)
	l.deliver(at(3, 1), multicast.Position{})
	require.Len(t, l.Violations, 1)
	l.deliver(at(2, 3), multicast.Position{})
	require.Len(t, l.Violations, 2)
	dir := t.TempDir()
	require.NoError(t, l.save(dir, true))
	loaded, err := loadLedger(dir)
	require.NoError(t, err)
	require.Equal(t, l.Digest, loaded.Digest)
	require.Equal(t, l.Senders, loaded.Senders)
}

func TestQuantiles(t *testing.T) {
	var h histogram
	for us := range 100000 {
		h.add(time.Duration(us) * time.Microsecond)
	}
	var merged histogram
	merged.merge(h.sparse())
	for _, q := range []float64{0, 0.1, 0.5, 0.95, 0.999} {
		require.InEpsilon(t, q*1e5+1, float64(merged.quantile(q)+1), 1.0/subBuckets)
	}
	require.Zero(t, (&histogram{}).quantile(0.5))
}
