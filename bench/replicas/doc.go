// Package replicas runs TRAM in real processes of this host, on one-sided memory (package memory), and kills
// a leader with SIGKILL. `globalfs-lab tram processes` runs it.
//
// Each process is a replica with a closed-loop client, which multicasts to its own group, and to others in
// turn. After the load, package check judges all deliveries: integrity, prefix and acyclic order, agreement
// and validity. Everything is in memory: no figure includes a disk, and a killed process stays away.
//
// The gap is the longest time without a delivery at a survivor of the killed leader's group, from the kill
// on.
package replicas
