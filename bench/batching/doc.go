// Package batching repeats the experiments of Santos and Schiper, "Optimizing Paxos with batching and
// pipelining" (section 5), in virtual time, and compares them with the model of pkg/batching and with the
// figures that the paper prints. It is what `globalfs-lab batching` runs.
//
// # The simulated leader
//
// The leader of section 5 has three parameters: the window (WND), the largest batch (BSZ) and the batch
// timeout (50 ms). 1,200 clients send a request, wait for the answer and send the next one at once. The
// leader has one CPU, which works on one thing at a time in the order of arrival: a request, a batch for each
// replica, an acceptance, an answer. Half of φcli is the price of receiving a request, half that of its
// answer; φrep is divided in the same way between a batch and its acceptance. The outgoing link is one for
// all receivers in a LAN, and one for each replica in a WAN. An instance is decided when ⌊n/2⌋ replicas have
// accepted it. The other replicas and the clients take no time.
//
// The simulation shares the costs and the sizes with the model, and nothing else: queues, the order of work
// and the filling of batches arise from the events. It has no collapse by packet loss, which the paper saw on
// Emulab.
//
// # Policies
//
// The comparison of policies runs three replicas with the core of the product (PrimCast) instead of the
// simulated leader, with the same prices. A turn of a replica takes the ready frames and, at the leader, the
// requests that the policy allows. Its output leaves at its end. Only the clients are the same: 1,200 in a
// closed loop, without a delay of their own.
package batching
