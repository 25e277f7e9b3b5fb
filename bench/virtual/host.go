package virtual

import "time"

// Prices are the times for which work of the product keeps a processor of a server busy.
type Prices struct {
	Wake    time.Duration // a step of a replica that slept
	Frame   time.Duration // a frame, at each of its ends
	Request time.Duration // a call of a client, with its reply
	Apply   time.Duration // a delivery, at each replica
}

// ServerPrices returns the prices of server processes: package micro compares them with measurements.
func ServerPrices() Prices {
	return Prices{Wake: 10 * time.Microsecond, Frame: 5 * time.Microsecond, Request: 120 * time.Microsecond, Apply: 80 * time.Microsecond}
}

// Host is a computer: its processors take pieces of work in the order of arrival.
type Host struct {
	net     *Network
	idle    int // processors
	waiting []work
	busy    time.Duration
}

// work begins on a processor, returns the time for which it keeps it busy, and ends.
type work struct {
	begin func() time.Duration
	end   func()
}

// NewHost returns a host with a number of processors.
func (n *Network) NewHost(processors int) *Host { return &Host{net: n, idle: processors} }

// Spend keeps a processor busy for a time, and then calls end.
func (h *Host) Spend(price time.Duration, end func()) {
	h.do(work{func() time.Duration { return price }, end})
}

// Busy returns the time of all work that has begun, on all processors.
func (h *Host) Busy() time.Duration { return h.busy }

func (h *Host) do(w work) {
	if h.idle == 0 {
		h.waiting = append(h.waiting, w)
		return
	}
	h.idle--
	h.start(w)
}

func (h *Host) start(w work) {
	price := w.begin()
	h.busy += price
	h.net.Schedule(h.net.Now+price, func() {
		w.end()
		if len(h.waiting) == 0 {
			h.idle++
			return
		}
		next := h.waiting[0]
		h.waiting[0] = work{}
		h.waiting = h.waiting[1:]
		h.start(next)
	})
}
