package batching

import "time"

// Setting is one of the two settings in which the paper measured.
type Setting struct {
	Name   string
	System System
	Answer int // Sans, bytes
	// Headers of JPaxos: bytes for each request and for each batch (section 5).
	RequestHeader, BatchHeader int
}

// kilobyte converts the paper's milliseconds for each KB.
func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// mbit is the paper's megabit a second, in bytes a second. Its tables follow from units of 2^20 bits.
const mbit = 1024 * 1024 / 8

// Cluster is section 5.1: three Pentium 4 and a Gigabit Ethernet, 940 Mbit/s by netperf.
func Cluster() Setting {
	return Setting{"cluster", System{
		Replicas: 3, Bandwidth: 940 * mbit,
		Client:  Cost{milliseconds(0.08), milliseconds(0.005)},
		Replica: Cost{milliseconds(0.22), milliseconds(0.0035)},
	}, 8, 16, 4}
}

// Emulab is section 5.2: three Pentium III, links of 10 Mbit/s and 50 ms. The tables follow from 9.4 Mbit/s,
// the same share of the nominal bandwidth as in the cluster.
func Emulab() Setting {
	return Setting{"emulab", System{
		Replicas: 3, Bandwidth: 9.4 * mbit, Delay: 50 * time.Millisecond, WAN: true,
		Client:  Cost{milliseconds(0.2), milliseconds(0.28)},
		Replica: Cost{milliseconds(1.5), milliseconds(0.002)},
	}, 8, 16, 4}
}

// Workload returns the paper's workload in this setting, with requests of some bytes.
func (s Setting) Workload(request int) Workload {
	return Workload{Request: request, Answer: s.Answer, RequestHeader: s.RequestHeader, BatchHeader: s.BatchHeader}
}
