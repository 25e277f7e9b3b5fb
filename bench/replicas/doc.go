// Package replicas runs TRAM in real processes of this host, on one-sided memory (package memory), and kills
// a leader with SIGKILL. `globalfs-lab tram processes` runs it.
//
// Each process is a replica with a closed-loop client, which multicasts to its own group, and to others in
// turn. After the load, package check judges all deliveries: integrity, prefix and acyclic order, agreement
// and validity. Everything is in memory: no figure includes a disk, and a killed process stays away.
//
// The gap is the longest time without a delivery at a survivor of the killed leader's group, from the kill
// on. A gap is also as long as the host does not let the replicas run, one after the other: Pause is the
// longest time of one replica. On a loaded machine a replica that does not run is suspected, and candidates
// then wait up to 16 times Suspect for each other: a gap of a second without a kill is no lost message. With
// Suspect above the pauses there are no campaigns, and the gaps that remain are pauses.
package replicas
