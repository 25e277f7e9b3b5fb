package batching

import (
	"fmt"
	"math"
	"time"
)

// Cost is CPU time that is linear in the size of a message.
type Cost struct {
	Fixed   time.Duration // for each message
	PerByte time.Duration // for each byte, times 1,024: the paper gives it for each KB
}

// Of returns the CPU time for a message of some bytes.
func (c Cost) Of(bytes int) time.Duration {
	return c.Fixed + time.Duration(float64(c.PerByte)*float64(bytes)/1024)
}

// System is the replicas and the network between them.
type System struct {
	Replicas  int           // n, at least 2, with the leader
	Bandwidth float64       // B, bytes a second: in a LAN of the leader's link, in a WAN of each link; above 0
	Delay     time.Duration // L, one way
	WAN       bool          // each replica is reached by a link of its own
	Client    Cost          // φcli: to receive a request and to send the answer; of the bytes of both
	Replica   Cost          // φrep: to send a batch to a replica and to receive its acceptance; of the bytes of both
}

// Workload is the requests of clients.
type Workload struct {
	Request       int           // Sreq, bytes
	Answer        int           // Sans, bytes
	RequestHeader int           // bytes that the protocol adds to each request
	BatchHeader   int           // bytes that the protocol adds to each batch
	Accept        int           // S2b, bytes of an acceptance
	Execute       time.Duration // φexec, CPU time of a request
}

// Batch returns S2a: the bytes of a message with a batch of k requests.
func (w Workload) Batch(k int) int { return k*(w.Request+w.RequestHeader) + w.BatchHeader }

// Resource is one of those that can limit the throughput.
type Resource string

// The resources of the leader, and the time that messages are under way.
const (
	CPU     Resource = "cpu"
	Network Resource = "network"
	Latency Resource = "latency"
)

// Prediction is the prediction of the model for batches of one size at full load.
type Prediction struct {
	Requests    int           // k, in a batch
	Batch       int           // S2a, bytes
	CPU         time.Duration // of the leader, for an instance
	Network     time.Duration // busy time of the leader's link, for an instance
	Duration    time.Duration // of an instance
	Longest     Resource      // determines the duration
	CPUWindow   float64       // instances in parallel that keep the CPU busy
	LinkWindow  float64       // instances in parallel that keep the link busy
	Window      int           // instances in parallel at which the first of both is busy
	Bottleneck  Resource      // this one; never Latency
	Throughput  float64       // requests a second with this window
	Alone       float64       // requests a second with a window of 1
	PerInstance float64       // instances a second with this window
}

// Validate reports values with which there is no prediction.
func (s System) Validate() error {
	switch {
	case s.Replicas < 2:
		return fmt.Errorf("batching: %d replicas: at least 2 are needed", s.Replicas)
	case !(s.Bandwidth > 0) || math.IsInf(s.Bandwidth, 0):
		return fmt.Errorf("batching: a bandwidth of %v bytes a second: it must be above 0 and finite", s.Bandwidth)
	case s.Delay < 0 || s.Client.Fixed < 0 || s.Client.PerByte < 0 || s.Replica.Fixed < 0 || s.Replica.PerByte < 0:
		return fmt.Errorf("batching: delays and costs must not be below 0: %+v", s)
	case s.Client.Fixed+s.Client.PerByte+s.Replica.Fixed+s.Replica.PerByte == 0:
		return fmt.Errorf("batching: all costs are 0: measure the CPU time of requests and of batches")
	}
	return nil
}

// Validate reports sizes that cannot be.
func (w Workload) Validate() error {
	if w.Request < 1 || min(w.Answer, w.RequestHeader, w.BatchHeader, w.Accept) < 0 || w.Execute < 0 {
		return fmt.Errorf("batching: a request needs at least 1 byte, and no size or time is below 0: %+v", w)
	}
	return nil
}

// Predict returns the prediction for batches of k requests, k at least 1.
func Predict(s System, w Workload, k int) (Prediction, error) {
	if err := s.Validate(); err != nil {
		return Prediction{}, err
	}
	if err := w.Validate(); err != nil {
		return Prediction{}, err
	}
	if k < 1 {
		return Prediction{}, fmt.Errorf("batching: a batch of %d requests: at least 1 is needed", k)
	}
	p := Prediction{Requests: k, Batch: w.Batch(k)}
	p.CPU = time.Duration(k)*(s.Client.Of(w.Request+w.RequestHeader+w.Answer)+w.Execute) +
		time.Duration(s.Replicas-1)*s.Replica.Of(p.Batch+w.Accept)
	p.Network = s.busy(w, k)
	p.Duration, p.Longest = s.duration(w, p)
	p.CPUWindow = float64(p.Duration) / float64(p.CPU)
	p.LinkWindow = float64(p.Duration) / float64(max(p.Network, 1))
	p.Bottleneck = CPU
	busiest := p.CPU
	if p.Network > p.CPU {
		p.Bottleneck, busiest = Network, p.Network
	}
	p.Window = int(math.Ceil(min(p.CPUWindow, p.LinkWindow)))
	p.PerInstance = 1 / busiest.Seconds()
	p.Throughput = float64(k) * p.PerInstance
	p.Alone = float64(k) / p.Duration.Seconds()
	return p, nil
}

// transfer returns the time for which some bytes keep a link busy.
func (s System) transfer(bytes float64) time.Duration {
	return time.Duration(bytes / s.Bandwidth * float64(time.Second))
}

// busy returns the network busy time of section 4.2.1.
func (s System) busy(w Workload, k int) time.Duration {
	if s.WAN {
		return s.transfer(float64(w.Batch(k)))
	}
	return s.transfer(float64((s.Replicas-1)*w.Batch(k) + k*w.Answer))
}

// duration computes formula (2) by the formulas (3) to (8), and returns the resource with the longest of the
// three times.
func (s System) duration(w Workload, p Prediction) (time.Duration, Resource) {
	quorum := float64(s.Replicas / 2)
	batch, execute := float64(p.Batch), time.Duration(p.Requests)*w.Execute
	var byCPU, byLatency time.Duration
	if s.WAN {
		byCPU = p.CPU + s.transfer(batch)
		byLatency = s.transfer(batch) + 2*s.Delay + execute
	} else {
		byCPU = p.CPU + s.transfer(quorum*batch/2)
		byLatency = s.transfer(quorum*batch+float64(p.Requests*w.Answer)) + 2*s.Delay + execute
	}
	longest, of := byCPU, CPU
	if p.Network > longest {
		longest, of = p.Network, Network
	}
	if byLatency > longest {
		longest, of = byLatency, Latency
	}
	return longest, of
}
