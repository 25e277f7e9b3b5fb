// Package virtual runs whole replicas (internal/replica over internal/meta, in memory) of partitions in
// several regions, with clients, in virtual time. Packages carrier and micro measure with it.
//
// # Model
//
// Partition 0 is global: it has a replica in each region. Each region has a partition of its own, or
// several (shards), of three replicas. A frame between regions takes the delay of topology.Delay; a frame
// within a region, and a call of a client to a replica in its region, take InsideDelay. Every frame and
// call takes longer by up to the fraction Jitter. Links keep the order of their frames. The same seed gives
// the same figures.
//
// Without Prices computing and writing take no time: the figures contain only distances and waiting. With
// Prices each region has a server in each of three datacenters (Host): it runs a replica of the region's
// partition, and one of them also the replica of the global partition. A step keeps a processor of the
// server busy, and its output leaves at its end; input that arrives meanwhile is taken by the next step.
//
// With Memory the processes of a region have one-sided memory (package fabricsim). TRAM orders the partitions
// of the region in it (Config.Tram), or the partitions execute commands in the way of Heron (Config.Heron,
// package heronfs). An operation costs its initiator Memory.Op when it is posted and when its completion is
// taken, and the target nothing but a step.
//
// A cut loses the frames on their way between the region and the others, and all frames that are sent until
// the cut ends. Then the links start anew.
package virtual
