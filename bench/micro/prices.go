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
		Prices: virtual.ServerPrices(),
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

// Real is a local operation of 24 clients on processes: a region with three servers, alone or beside another
// region with three servers and no load.
type Real struct {
	Operation string  `json:"operation"`
	Regions   int     `json:"regions"`
	PerSecond float64 `json:"per_second"` // of the region
	CPU       float64 `json:"cpu_us"`     // of the mount and of the servers of the region
	Far       float64 `json:"far_us"`     // of the servers of the other region
}

// Processes has the real points of Figure 3.6: 'globalfs-lab geo --settings loopback --sync --datacenters 3
// --clients 24 --duration 1s --rounds 1' with one region and with two in turn, medians of five runs each, on
// 28 November 2026. All processes shared two cores with other work (load 20 to 23), and there was no
// distance between the regions: the WAN laboratory did not run.
func Processes() []Real {
	return []Real{
		{Read, 1, 25586, 31, 0}, {Read, 2, 30902, 29, 1}, {Write, 1, 2107, 488, 0}, {Write, 2, 1884, 613, 10},
		{Create, 1, 2135, 401, 0}, {Create, 2, 2420, 468, 12}, {CreateWrite, 1, 654, 1184, 0}, {CreateWrite, 2, 602, 1524, 34},
	}
}
