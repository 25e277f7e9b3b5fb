package wan

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/topology"
)

func TestBadConfigsAreRefused(t *testing.T) {
	crowd := make([]Host, 251)
	for i := range crowd {
		crowd[i] = Host{Name: fmt.Sprint("h", i), Region: "r"}
	}
	for name, config := range map[string]Config{
		"two of a name":       {Hosts: []Host{{"a", "r"}, {"a", "s"}}},
		"host named a region": {Hosts: []Host{{"a", "r"}, {"r", "s"}}},
		"no name":             {Hosts: []Host{{"", "r"}}},
		"no region":           {Hosts: []Host{{"a", ""}}},
		"controller":          {Hosts: []Host{{Controller, "r"}}},
		"region controller":   {Hosts: []Host{{"a", Controller}}},
		"crowded region":      {Hosts: crowd},
		"small subnet":        {Hosts: three(), Subnet: netip.MustParsePrefix("10.98.0.0/24")},
		"subnet of IPv6":      {Hosts: three(), Subnet: netip.MustParsePrefix("fd00::/16")},
		"subnet in use":       {Hosts: three(), Subnet: netip.MustParsePrefix("127.0.0.0/16")},
	} {
		_, err := New(config)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, ErrUnavailable, name)
	}
}

func TestDelaysAreThoseOfTheRegions(t *testing.T) {
	hosts := append(three(), Host{"dublin", "eu-west-1"})
	l := start(t, Config{Hosts: hosts})
	everybody := append(hosts, Host{Name: Controller})
	for _, to := range everybody {
		target := reflect(t, l, to.Name)
		for _, from := range everybody {
			rtt := ask(t, socket(t, l, from.Name), target)
			want := time.Duration(0)
			if from.Name != Controller && to.Name != Controller {
				want = 2 * topology.Delay(from.Region, to.Region)
			}
			require.GreaterOrEqual(t, rtt, want, "%s to %s", from.Name, to.Name)
		}
	}
	require.Equal(t, 35*time.Millisecond, traffic(l, "oregon", "virginia").Delay)
	require.Equal(t, 70*time.Millisecond, traffic(l, "oregon", "ireland").Delay)
	require.Equal(t, 40*time.Millisecond, traffic(l, "virginia", "ireland").Delay)
	stats := l.Stats()
	require.Len(t, stats.Links, 5*4)
	require.Positive(t, stats.Late(0.5))
	require.True(t, strings.HasSuffix(l.Address("dublin"), ".3.2"), l.Address("dublin"))
	require.True(t, strings.HasSuffix(l.Address(Controller), ".0.1"), l.Address(Controller))
}

// A TCP connection survives a cut. Data sent before and during the cut arrives.
func TestConnectionsSurviveACut(t *testing.T) {
	l := start(t, Config{Hosts: three(), Delay: apart(time.Millisecond)})
	c := dial(t, l, "oregon", listen(t, l, "ireland", echo))
	r := bufio.NewReader(c)
	say := func(word string) {
		_, err := fmt.Fprintln(c, word)
		require.NoError(t, err)
	}
	hear := func(word string) {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, word+"\n", line)
	}
	say("before")
	hear("before")
	require.NoError(t, l.Cut("eu-west-1"))
	say("during")
	require.Eventually(t, func() bool { return traffic(l, "oregon", "ireland").Dropped > 1 }, time.Minute, time.Millisecond)
	require.NoError(t, l.Heal("ireland"))
	hear("during")
	say("after")
	hear("after")
}

// numbers sends numbered packets from a host to a socket, and waits until the router has seen them.
func numbers(t *testing.T, l *Lab, from string, to *net.UDPConn, first, n int) {
	c := socket(t, l, from)
	host := l.hosts[hostOf(l, to)].Name
	seen := func() uint64 {
		link := traffic(l, from, host)
		return link.Packets + link.Lost + link.Dropped
	}
	before := seen()
	for i := range n {
		_, err := c.WriteToUDP([]byte(strconv.Itoa(first+i)), to.LocalAddr().(*net.UDPAddr))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return seen() >= before+uint64(n) }, time.Minute, time.Millisecond)
}

func hostOf(l *Lab, c *net.UDPConn) int {
	return l.router.byIP[[4]byte(c.LocalAddr().(*net.UDPAddr).IP.To4())]
}

// readNumbers reads packets up to the one with a certain number.
func readNumbers(t *testing.T, c *net.UDPConn, last int) (all []int) {
	for b := make([]byte, 64); len(all) == 0 || all[len(all)-1] != last; {
		n, err := c.Read(b)
		require.NoError(t, err)
		number, err := strconv.Atoi(string(b[:n]))
		require.NoError(t, err)
		all = append(all, number)
	}
	return all
}

// Packets arrive in order: a packet that is missing when the last one arrives never arrives.
func TestNothingPassesACut(t *testing.T) {
	l := start(t, Config{Hosts: append(three(), Host{"dublin", "eu-west-1"}), Delay: apart(time.Millisecond)})
	oregon, ireland := socket(t, l, "oregon"), socket(t, l, "ireland")

	require.NoError(t, l.Cut("eu-west-1"))
	numbers(t, l, "oregon", ireland, 1, 100)
	numbers(t, l, "ireland", oregon, 1, 100)
	numbers(t, l, "dublin", ireland, 1000, 1)
	numbers(t, l, Controller, ireland, 2000, 1)
	require.Equal(t, []int{1000, 2000}, readNumbers(t, ireland, 2000), "the region itself and the controller are not cut")
	require.NoError(t, l.Heal())
	numbers(t, l, "oregon", ireland, 101, 1)
	numbers(t, l, "ireland", oregon, 101, 1)
	require.Equal(t, []int{101}, readNumbers(t, ireland, 101))
	require.Equal(t, []int{101}, readNumbers(t, oregon, 101))
	require.EqualValues(t, 100, traffic(l, "oregon", "ireland").Dropped)

	require.NoError(t, l.Shape([]string{"us-west-2"}, []string{"ireland"}, func(link *Link) { link.Down = true }))
	numbers(t, l, "oregon", ireland, 102, 10)
	numbers(t, l, "ireland", oregon, 102, 1)
	require.Equal(t, []int{102}, readNumbers(t, oregon, 102), "a cut of one direction")
	require.NoError(t, l.Heal("oregon"))
	numbers(t, l, "oregon", ireland, 112, 1)
	require.Equal(t, []int{112}, readNumbers(t, ireland, 112))
}

// A packet in flight at a cut is lost if it is due before the path is healed.
func TestACutLosesWhatIsInFlight(t *testing.T) {
	l := start(t, Config{Hosts: three(), Delay: apart(50 * time.Millisecond)})
	ireland, oregon := socket(t, l, "ireland"), socket(t, l, "oregon")
	_, err := oregon.WriteToUDP([]byte("1"), ireland.LocalAddr().(*net.UDPAddr))
	require.NoError(t, err)
	require.NoError(t, l.Cut("oregon"))
	require.Eventually(t, func() bool { return traffic(l, "oregon", "ireland").Dropped == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, l.Heal())
	numbers(t, l, "oregon", ireland, 2, 1)
	require.Equal(t, []int{2}, readNumbers(t, ireland, 2))
}

func TestPacketsKeepTheirOrder(t *testing.T) {
	l := start(t, Config{Hosts: three(), Delay: apart(5 * time.Millisecond)})
	require.NoError(t, l.Shape(nil, nil, func(link *Link) { link.Jitter = 5 * time.Millisecond }))
	ireland := socket(t, l, "ireland")
	const n = 200 // fits into the receiver's buffer
	numbers(t, l, "oregon", ireland, 0, n)
	for i, number := range readNumbers(t, ireland, n-1) {
		require.Equal(t, i, number)
	}
}

func TestLossIsCounted(t *testing.T) {
	l := start(t, Config{Hosts: three(), Delay: apart(0), Seed: 7})
	require.NoError(t, l.Shape([]string{"oregon"}, []string{"ireland"}, func(link *Link) { link.Loss = 0.2 }))
	numbers(t, l, "oregon", socket(t, l, "ireland"), 0, 1000)
	link := traffic(l, "oregon", "ireland")
	require.InDelta(t, 200, link.Lost, 100)
	require.EqualValues(t, 1000, link.Lost+link.Packets)
	require.Zero(t, traffic(l, "ireland", "oregon").Lost)
}

// carry sends bytes over TCP, checks them, and returns the time until all have arrived.
func carry(t *testing.T, l *Lab, size int) time.Duration {
	right := make(chan bool, 1)
	c := dial(t, l, "oregon", listen(t, l, "ireland", func(c net.Conn) {
		got, err := io.ReadAll(c)
		ok := err == nil && len(got) == size
		for i := range got {
			ok = ok && got[i] == byte(i*i>>8)
		}
		right <- ok
	}))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * i >> 8)
	}
	began := time.Now()
	_, err := c.Write(data)
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	require.True(t, <-right)
	return time.Since(began)
}

// Super-packets are cut into valid TCP segments, and lost segments are resent.
func TestTCPOverALossyLink(t *testing.T) {
	l := start(t, Config{Hosts: three(), Delay: apart(time.Millisecond)})
	carry(t, l, 20<<20)
	before := traffic(l, "oregon", "ireland")
	require.Greater(t, before.Bytes/before.Packets, uint64(2*mtu), "no super-packets: they make it fast")
	require.NoError(t, l.Shape(nil, nil, func(link *Link) { link.Loss = 0.01 }))
	carry(t, l, 4<<20)
	after := traffic(l, "oregon", "ireland")
	require.LessOrEqual(t, (after.Bytes-before.Bytes)/(after.Packets-before.Packets), uint64(mtu))
	require.Positive(t, after.Lost)
}

func TestBandwidthOfTCP(t *testing.T) {
	l := start(t, Config{Hosts: three(), Delay: apart(time.Millisecond)})
	require.NoError(t, l.Shape([]string{"oregon"}, nil, func(link *Link) { link.Rate = 40_000_000 }))
	require.Greater(t, carry(t, l, 5<<20), time.Second)
}

// All bytes of a TCP connection arrive once the links are healed, after any changes of the links.
func TestLinksChangeWhileTheyCarry(t *testing.T) {
	l := start(t, Config{Hosts: three(), Delay: apart(time.Millisecond)})
	to, from := reflect(t, l, "oregon"), socket(t, l, Controller)
	var all sync.WaitGroup
	all.Go(func() {
		random := seeded()
		for range 500 {
			assert.NoError(t, l.Shape([]string{"oregon"}, []string{"eu-west-1"}, func(link *Link) {
				*link = Link{
					Delay: time.Duration(random.IntN(3)) * time.Millisecond, Jitter: time.Duration(random.IntN(3)) * time.Millisecond,
					Rate: random.Int64N(2) * 1e9, Loss: float64(random.IntN(2)) / 1000, Down: random.IntN(4) == 0,
				}
			}))
			assert.Less(t, ask(t, from, to), time.Minute) // some time passes
			assert.Len(t, l.Stats().Links, 4*3)
		}
		assert.NoError(t, l.Heal())
	})
	carry(t, l, 32<<20)
	all.Wait()
}

// When a path with packets in flight becomes fast, it delivers them at once, although the router sleeps until
// their earlier due time.
func TestFastAgainAtOnce(t *testing.T) {
	l := start(t, Config{Hosts: three(), Delay: apart(0)})
	ireland := socket(t, l, "ireland")
	require.NoError(t, l.Shape([]string{"oregon"}, []string{"ireland"}, func(link *Link) { link.Delay = time.Hour }))
	oregon := socket(t, l, "oregon")
	for _, number := range []string{"1", "2"} {
		_, err := oregon.WriteToUDP([]byte(number), ireland.LocalAddr().(*net.UDPAddr))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		l.router.mu.Lock()
		defer l.router.mu.Unlock()
		return len(l.router.paths[1*len(l.hosts)+3].queue) == 2
	}, time.Minute, time.Millisecond)
	require.NoError(t, l.Heal("ireland"))
	require.NoError(t, ireland.SetDeadline(time.Now().Add(time.Minute)))
	require.Equal(t, []int{1, 2}, readNumbers(t, ireland, 2))
}

// A host with its interface off is silent, and the lab continues.
func TestInterfaceOff(t *testing.T) {
	l := start(t, Config{Hosts: three(), Delay: apart(0)})
	ireland := socket(t, l, "ireland")
	set := func(flags uint16) {
		require.NoError(t, l.Inside("ireland", func() error {
			_, err := control("wan0", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(flags); return nil })
			return err
		}))
	}
	set(unix.IFF_NOARP)
	numbers(t, l, "oregon", ireland, 1, 3)
	require.EqualValues(t, 3, traffic(l, "oregon", "ireland").Dropped)
	set(unix.IFF_NOARP | unix.IFF_UP)
	numbers(t, l, "oregon", ireland, 4, 1)
	require.Equal(t, []int{4}, readNumbers(t, ireland, 4))
}

func TestUnknownNames(t *testing.T) {
	l := start(t, Config{Hosts: three()})
	require.ErrorContains(t, l.Cut("mars"), "mars")
	require.ErrorContains(t, l.Heal("mars"), "mars")
	require.Error(t, l.Cut())
	require.ErrorContains(t, l.Shape([]string{"mars"}, nil, func(*Link) {}), "mars")
	require.ErrorContains(t, l.Shape(nil, []string{"mars"}, func(*Link) {}), "mars")
	require.ErrorContains(t, l.Shape(nil, nil, func(link *Link) { link.Loss = 2 }), "loss 2")
	require.Zero(t, traffic(l, "oregon", "ireland").Loss)
	require.ErrorContains(t, l.Command(t.Context(), "mars", "true").Run(), "mars")
	_, err := l.Dial(t.Context(), "mars", "10.98.1.1:80")
	require.ErrorContains(t, err, "mars")
	_, err = l.Dial(t.Context(), "oregon", "ireland:80")
	require.ErrorContains(t, err, "no names")
	require.Empty(t, l.Address("mars"))
	require.Empty(t, l.Namespace("mars"))
	_, err = New(Config{Hosts: three(), Delay: apart(-1)})
	require.ErrorContains(t, err, "negative")
}

func TestLabsSideBySide(t *testing.T) {
	a, b := start(t, Config{Hosts: three()}), start(t, Config{Hosts: three()})
	require.NotEqual(t, a.Address("oregon"), b.Address("oregon"))
	require.NoError(t, a.Cut("ireland"))
	dial(t, b, Controller, listen(t, b, "ireland", echo))
	subnet := netip.PrefixFrom(netip.MustParseAddr(a.Address("oregon")), 16)
	_, err := New(Config{Hosts: three(), Subnet: subnet})
	require.ErrorContains(t, err, "no free subnet")
}

// printNamespaces is a process on a host. It prints its namespaces and then waits for the end of its input.
func printNamespaces() error {
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	mounts, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	fmt.Println(os.Getpid(), network, mounts, addresses)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func TestCommandJoinsOnlyTheNetwork(t *testing.T) {
	l := start(t, Config{Hosts: three()})
	network, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	mounts, err := os.Readlink("/proc/self/ns/mnt")
	require.NoError(t, err)
	for _, host := range []string{Controller, "ireland"} {
		c := l.Command(t.Context(), host, os.Args[0])
		c.Env = append(os.Environ(), role+"=namespaces")
		in, err := c.StdinPipe()
		require.NoError(t, err)
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		fields := strings.Fields(line)
		require.Equal(t, strconv.Itoa(c.Process.Pid), fields[0], "signals go to the program itself")
		require.Equal(t, host == Controller, fields[1] == network)
		require.Equal(t, mounts, fields[2])
		require.Contains(t, strings.Join(fields[3:], " "), l.Address(host)+"/16")
		require.NoError(t, in.Close())
		require.NoError(t, c.Wait())
	}
	after, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.Equal(t, network, after)
}

// keepLab makes a lab with a process on a host, prints its address, and dies.
func keepLab() error {
	l, err := New(Config{Hosts: three()})
	if err != nil {
		return err
	}
	c := l.Command(context.Background(), "ireland", "sleep", "1000")
	c.Stdout = os.Stdout
	if err := c.Start(); err != nil {
		return err
	}
	fmt.Println(l.Address(Controller))
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

func TestNothingOutlivesItsProcess(t *testing.T) {
	l := start(t, Config{Hosts: three()})
	c := l.Command(t.Context(), Controller, os.Args[0])
	c.Env = append(os.Environ(), role+"=lab")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	text, err := io.ReadAll(out) // until the process on the host has ended, too
	require.NoError(t, err)
	address := strings.TrimSpace(string(text))
	require.Error(t, c.Wait())
	require.Eventually(t, func() bool { return !hasAddress(t, address) }, time.Minute, time.Millisecond)
	again := start(t, Config{Hosts: three(), Subnet: netip.PrefixFrom(netip.MustParseAddr(address), 16)})
	require.Equal(t, address, again.Address(Controller))
}

func hasAddress(t *testing.T, address string) bool {
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if strings.HasPrefix(a.String(), address+"/") {
			return true
		}
	}
	return false
}

func TestCloseRemovesEverything(t *testing.T) {
	descriptors := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(all)
	}
	start(t, Config{Hosts: three()}) // the Go runtime's own descriptors are open now
	before := descriptors()
	l, err := New(Config{Hosts: three()})
	require.NoError(t, err)
	address := l.Address(Controller)
	require.True(t, hasAddress(t, address))
	require.NoError(t, l.Close())
	require.Equal(t, before, descriptors())
	require.False(t, hasAddress(t, address))
}
