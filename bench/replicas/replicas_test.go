package replicas

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// replicaVariable makes this program a replica.
const replicaVariable = "REPLICAS_TEST_REPLICA"

func TestMain(m *testing.M) {
	if os.Getenv(replicaVariable) == "" {
		os.Exit(m.Run())
	}
	if err := Replica(context.Background(), os.Stdin, os.Stdout); err != nil {
		os.Exit(1)
	}
}

func small() Config {
	return Config{
		Program: []string{os.Args[0]}, Providers: []string{"shm", "soft"}, Groups: 2, Destination: 2, Messages: 200, Outstanding: 4,
		Payload: 64, Spin: 20 * time.Microsecond, Suspect: 50 * time.Millisecond, Kill: true, Progress: func(string) {},
	}
}

// TestLeaderIsKilled: two groups in six processes. After SIGKILL of the leader of the root the others deliver
// everything, in order and once.
func TestLeaderIsKilled(t *testing.T) {
	t.Setenv(replicaVariable, "1")
	c := small()
	require.NoError(t, c.Validate())
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, r.Points, 2)
	for _, p := range r.Points {
		require.GreaterOrEqual(t, p.Messages, 5*200, "the messages of the survivors")
		require.NotZero(t, p.Leader, "nobody leads the root at the end")
		require.Positive(t, p.Gap)
	}
	var table bytes.Buffer
	require.NoError(t, r.WriteTable(&table))
	require.Contains(t, table.String(), "shm")
}

// TestJudgeSees: a delivery that is missing, or out of order, is an error.
func TestJudgeSees(t *testing.T) {
	c := small()
	c.Groups, c.Destination, c.Messages, c.Kill = 1, 1, 2, false
	for name, change := range map[string]func(all []*process){
		"lost":         func(all []*process) { all[2].report.Deliveries = all[2].report.Deliveries[:5] },
		"duplicated":   func(all []*process) { all[1].report.Deliveries = append(all[1].report.Deliveries, [3]int64{1, 1, 99}) },
		"out of order": func(all []*process) { d := all[0].report.Deliveries; d[3], d[4] = d[4], d[3] },
		"":             func([]*process) {},
	} {
		var all []*process
		for _, s := range c.specs("", "shm") {
			p := &process{spec: s}
			for i := range int64(6) {
				p.report.Deliveries = append(p.report.Deliveries, [3]int64{i/2 + 1, i%2 + 1, i})
			}
			all = append(all, p)
		}
		change(all)
		_, err := c.judge("shm", all, time.Now(), time.Second)
		require.Equal(t, name != "", err != nil, "%s: %v", name, err)
	}
}

func TestValidate(t *testing.T) {
	good := small()
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(*Config){
		"no provider": func(c *Config) { c.Providers = []string{"x"} },
		"groups":      func(c *Config) { c.Groups = 0 },
		"of 2 groups": func(c *Config) { c.Destination = 3 },
		"messages of": func(c *Config) { c.Messages = 0 },
		"outstanding": func(c *Config) { c.Outstanding = 0 },
		"payload":     func(c *Config) { c.Payload = -1 },
		"suspect":     func(c *Config) { c.Suspect = 0 },
	} {
		c := good
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}
