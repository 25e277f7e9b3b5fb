// Package batching predicts how batching and pipelining change the throughput of a replicated state machine
// with a leader, such as Paxos. It is the analytical model of Santos and Schiper, "Optimizing Paxos with
// batching and pipelining" (Theoretical Computer Science 496, 2013), section 4. A caller describes the System
// and the Workload and gets a Prediction for a batch of k requests. ChooseFor gives the batch for a number of
// clients.
//
// # The model
//
// One instance orders one batch. Two resources of the leader can limit the throughput: its CPU and its
// outgoing link. The model gives the time for which an instance keeps each of them busy, and the duration of
// an instance. While an instance waits for the other replicas, the leader can work on further instances. The
// window is the number of instances at which the first resource has no idle time left.
//
//	network busy time   LAN  ((n-1) S2a + k Sans) / B        WAN  S2a / B             (section 4.2.1)
//	CPU time            k φcli(Sreq+Sans) + (n-1) φrep(S2a+S2b) + k φexec             (1)
//	duration            max(Tcpu, Tband, Tlat)                                        (2)
//	Tcpu                LAN  CPU + ⌊n/2⌋ S2a / 2B            WAN  CPU + S2a / B       (3), (6)
//	Tband               LAN  ((n-1) S2a + k Sans) / B        WAN  S2a / B             (4), (7)
//	Tlat                LAN  ⌊n/2⌋ S2a / B + 2L + k φexec + k Sans / B                (5)
//	                    WAN  S2a / B + 2L + k φexec                                   (8)
//	window              ⌈min(duration / CPU time, duration / network busy time)⌉      (9)
//
// In a LAN the links to all replicas share the bandwidth B of the leader. In a WAN each link has its own
// bandwidth.
//
// # Assumptions
//
// The leader executes one thing at a time, links are full duplex, nothing is lost, nothing fails, and there
// is always a request for the next batch. The model predicts throughput at full load, and no latency of
// clients.
//
// The package has no state. All functions may be called concurrently.
package batching
