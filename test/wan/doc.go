// Package wan simulates a wide-area network on one Linux machine. Every host is a network namespace with one
// TUN device. One router, a goroutine of this process, moves IPv4 packets between the TUNs: for each ordered
// pair of hosts with a delay, jitter, loss, a bandwidth, and cuts, all of which can change while it runs. The
// package needs root and /dev/net/tun; it needs no netem, bridge, veth or iptables, and no program except
// nsenter.
//
//	lab, err := wan.New(wan.Config{Hosts: []wan.Host{
//		{Name: "oregon", Region: "us-west-2"}, {Name: "ireland", Region: "eu-west-1"},
//	}})
//	if errors.Is(err, wan.ErrUnavailable) {
//		t.Skip(err)
//	}
//	defer lab.Close()
//	server := lab.Command(ctx, "ireland", "globalfs", "server", "--listen", lab.Address("ireland")+":7946")
//	lab.Cut("eu-west-1")
//	lab.Heal()
//
// # How it works
//
// The router's thread sleeps in epoll until a TUN has packets or the first packet in flight is due. Each
// path, one direction of a pair, is a queue: packets keep their order under jitter and when the path changes.
// A heap of the paths by the due time of their first packet returns the next packet. The thread has real-time
// priority if that is allowed. TCP hands over super-packets of up to 64 KB (TSO), which pass unchanged. On
// paths with loss or a bandwidth they are first cut into the segments that a wire would carry.
//
// Guarantees:
//
//	W1  No packet arrives before its delay has passed, except packets in flight when a change makes their
//	    path faster.
//	W2  Packets of a path arrive in the order of their sending.
//	W3  After Cut, or a Shape that takes a path down, has returned, no packet arrives by that path until the
//	    path is healed. Connections get no packets and no reset. A packet in flight is lost if it is due while
//	    the path is down.
//	W4  All resources of a lab end with the process that made it. Namespaces have no name, only a descriptor.
//	    TUNs are not persistent, their addresses and routes are removed with them, and the kernel ends the
//	    processes of Command. So there is nothing to clean up after a crash, and no conflict of names with
//	    another run.
//
// The address of a host is SUBNET.REGION.HOST, both counted from 1 in the order of the configuration. The
// test itself is the host Controller at SUBNET.0.1, in the namespace of the process that made the lab, and
// with no delay to any other host. Processes there reach all hosts, and all hosts reach them. Cut does not
// affect it unless it is named. Concurrent labs have different subnets.
//
// # Figures
//
// Measured on two processors with other load; go test -run xxx -bench . ./test/wan measures again. A lab of
// three hosts is up in 2 ms and closed in 0.1 s, one of 24 in 20 ms and 0.7 s.
//
//	round trip set to        0 ms           10 ms          70 ms          140 ms        p50 / p99
//	alone                    0.03 / 0.06    10.1 / 10.3    70.3 / 70.5    140.4 / 140.7
//	4 busy processes         0.01 / 0.15    10.1 / 14.5    70.3 / 73.9    140.4 / 151     router late by 0.13
//	2 busy goroutines        0.01 / 75      70 / 98        175 / 193      220 / 230       16 to 32
//	  with GOMAXPROCS=8      -              10.1 / 28      70.3 / 77      -               0.06
//	TCP, 1 / 4 connections   23 / 20        2.5 / 9.9      0.28 / 1.2     -               Gbit/s, by windows
//
// # Pitfalls
//
//   - Hosts share the file system, the process ids, the clock and the hostname: give each server its own
//     directories, and bind it to Address. Only the network is separate, so that all hosts can use a FUSE
//     mount made on one host. (`ip netns exec` would hide it in a mount namespace.)
//   - Hosts have no route out of the lab and no DNS. Each has its own 127.0.0.1.
//   - The congestion control of the hosts is cubic if the kernel allows it (tcp_allowed_congestion_control),
//     or else the machine's. With bbr, TCP hardly slows down when packets are lost. The Controller always has
//     the machine's.
//   - The window limits one TCP flow: 70 ms and the usual 6 MB of tcp_rmem make 0.4 Gbit/s. Write
//     /proc/sys/net/ipv4/tcp_rmem under Inside for more.
//   - Loss and jitter are uniform, not bursty. Lost in Stats counts packets that the router dropped by Loss;
//     a UDP receiver with a small buffer loses more.
//   - The router shares the Go scheduler with its process: goroutines that compute for long on all of
//     GOMAXPROCS make packets late by 16 ms and more. Do heavy work in separate processes (Command), or set
//     GOMAXPROCS to four times the processors, so that Linux schedules the router first. Stats.Late returns
//     the lateness.
//   - A saturated router uses a whole core, which real-time priority gives it. Compare systems at equal load,
//     not at the limit of the lab.
//   - End the processes on hosts before Close: a namespace with a process in it continues to exist, without a
//     network.
//   - A firewall of the machine that drops packets from unknown interfaces cuts off the Controller.
//
// To inspect a host manually: nsenter --net=PATH, with the path that Namespace returns.
package wan
