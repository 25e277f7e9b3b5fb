package micro

import (
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
)

// Prices are the times for which work keeps a processor busy.
type Prices struct {
	virtual.Prices
	Put       time.Duration // a block, at each server that stores it
	Get       time.Duration // a block, at the server that sends it
	Operation time.Duration // at the mount: the requests of the kernel
	Call      time.Duration // at the mount: a call of a server
}

// DefaultPrices fit the CPU times of Measured: a creation by one client takes some 8 steps after sleep, 16
// ends of frames, a request and 3 deliveries at the servers; the share of steps and frames falls to a
// quarter with 24 clients. A write also stores a block twice.
func DefaultPrices() Prices {
	return Prices{
		Prices: virtual.Prices{Wake: 10 * time.Microsecond, Frame: 5 * time.Microsecond, Request: 120 * time.Microsecond, Apply: 80 * time.Microsecond},
		Put:    90 * time.Microsecond, Get: 60 * time.Microsecond, Operation: 160 * time.Microsecond, Call: 60 * time.Microsecond,
	}
}

// Cost is the CPU time of a local operation in a region with three servers, in microseconds.
type Cost struct {
	Operation string  `json:"operation"`
	Clients   int     `json:"clients"` // in all
	Servers   float64 `json:"servers_us"`
	Mounts    float64 `json:"mounts_us"`
}

// Measured has CPU times of processes: 'globalfs-lab geo --settings loopback --sync --datacenters 3' on 28
// November 2026, on two cores with a load of 16 to 27, clusters of one and of two regions (the lower figure
// of both; creations of 24 clients in directories of their own).
func Measured() []Cost {
	return []Cost{
		{Create, 1, 526, 243}, {Create, 24, 396, 191}, {Write, 1, 780, 255}, {Write, 24, 533, 162}, {CreateWrite, 1, 1005, 377}, {CreateWrite, 24, 1033, 432},
	}
}
