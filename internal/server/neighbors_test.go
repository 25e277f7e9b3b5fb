package server

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/test/bubble"
)

// A bound client that is the only client of its server gives way to another client at another server of the
// partition, if one of both servers is short of processors. It does not give way to its own requests at other
// servers, to a client that works as much as it does, or to the clients of a server that does not answer any
// more.
func TestGivesWayAtOtherServers(t *testing.T) {
	const parallel = 10
	working := func(clients ...rival) (p pressure) {
		p.short = true
		for _, one := range clients {
			p.add(one)
		}
		return p
	}
	mount := rival{client: "mount"}
	for name, x := range map[string]struct {
		short bool // the processors of this server
		there pressure
		every time.Duration // between the answers of the other server
		most  int
	}{
		"to a mount, short here":    {true, pressure{least: [2]rival{mount}}, loadEvery, 1},
		"to a mount, short there":   {false, working(mount), loadEvery, 1},
		"to a usual client":         {false, pressure{short: true, first: true, least: [2]rival{{"usual", time.Hour}}}, loadEvery, 1},
		"to no one on idle servers": {false, pressure{least: [2]rival{mount}}, loadEvery, parallel},
		"not to itself":             {true, working(rival{"hostile", 0}), loadEvery, parallel},
		"not to the same use":       {true, working(rival{"laptop", time.Hour}), loadEvery, parallel},
		"to the less of two":        {true, working(rival{"hostile", time.Second}, mount), loadEvery, 1},
		"not to a server that fell": {true, working(mount), time.Hour, parallel},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, hostile := busy(x.short), narrow("hostile")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c.learn("westb", x.there)
				go func() {
					tick := time.NewTicker(x.every)
					defer tick.Stop()
					for {
						select {
						case <-tick.C:
							c.learn("westb", x.there)
						case <-ctx.Done():
							return
						}
					}
				}()
				during(t, c, 2*activeFor, map[*ask.Client]int{hostile: parallel})
				loads := during(t, c, 4*time.Second, map[*ask.Client]int{hostile: parallel})
				require.Equal(t, x.most, loads[hostile].most)
			})
		})
	}
}

// The use of a client is that at all servers: a client that works much here, and little elsewhere, is not
// among those with the least use.
func TestUseAtOtherServersIsAdded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := busy(true)
		for name, use := range map[string]time.Duration{"hostile": 500, "laptop": 100, "phone": 120} {
			c.asked(narrow(name)).use = use
			c.lanes[name].used = time.Now()
		}
		c.learn("westb", pressure{short: true, least: [2]rival{{"hostile", 10}}})
		c.learn("westc", pressure{short: true, least: [2]rival{{"hostile", 20}, {"laptop", 5}}})
		c.sample(time.Now())
		require.Equal(t, [2]rival{{"laptop", 105}, {"phone", 120}}, c.all.least)
		require.EqualValues(t, 30, c.there.of("hostile"))
	})
}

// A server tells others only of its own clients: news that comes back would never end.
func TestPressureIsOfOneServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := busy(false)
		c.learn("westb", pressure{short: true, first: true, least: [2]rival{{"mount", 0}}})
		work(t, c, narrow("laptop"))
		time.Sleep(sampleEvery)
		require.Equal(t, pressure{least: [2]rival{{"laptop", 0}}}, c.pressure())
	})
}

func TestPressureEncoding(t *testing.T) {
	for _, p := range []pressure{
		{}, {short: true}, {first: true, least: [2]rival{{"a", 0}}}, {short: true, first: true, least: [2]rival{{"a", 1}, {"b", 1 << 62}}},
	} {
		b := p.append(nil)
		decoded, err := decodePressure(b)
		require.NoError(t, err)
		require.Equal(t, p, decoded)
		for n := range b {
			_, err := decodePressure(b[:n])
			require.Error(t, err)
		}
	}
	for s := ask.Answered; s <= ask.Unproven; s++ { // of a server of an earlier version
		_, err := decodePressure((&ask.Reply{Status: s}).Append(nil))
		require.Error(t, err)
	}
}

// While a bounded client uses a server, this one learns the load of the others.
func TestServersTellTheirLoad(t *testing.T) {
	spec := topology.Spec{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 1}
	plan, err := spec.Plan()
	require.NoError(t, err)
	network := transport.NewLocal(nil)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error)
	var servers []*Server
	for i := range plan.Servers {
		s, err := Start(Config{
			Cluster: plan, Name: plan.Servers[i].Name, Dir: t.TempDir(), Durability: wal.Memory, Endpoint: network.Endpoint,
			Asker: func(ctx context.Context) Asker {
				if a, is := ctx.Value(askerKey{}).(Asker); is {
					return a
				}
				return Asker{Server: true}
			},
			Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		servers = append(servers, s)
		go func() { ran <- s.Run(ctx) }()
	}
	t.Cleanup(func() {
		stop()
		for range servers {
			require.NoError(t, <-ran)
		}
		require.NoError(t, network.Close())
	})
	caller := network.Endpoint(60000)
	query := (&ask.Request{Kind: ask.Query}).Append(nil) // malformed: it counts nevertheless
	use := func(server int, client *ask.Client) {
		call, cancel := context.WithTimeout(as(t, Asker{Name: client.Name, Authority: client.Authority}), time.Second)
		defer cancel()
		_, _ = caller.Call(call, plan.Partitions[1].Replicas[server].Process, query)
	}
	others := func() pressure {
		c := servers[1].admission.contention
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.others(time.Now())
	}
	require.Eventually(t, func() bool {
		use(0, anyRights("mount"))
		use(1, narrow("hostile"))
		p := others()
		return p.first && p.hasOther("hostile")
	}, 20*time.Second, loadEvery)
	for _, s := range servers {
		require.Positive(t, workOf(s)[1])
	}
}
