package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/globalfs/globalfs/internal/topology"
)

// Template returns f as a commented cluster file, which ReadFile can read.
func (f *File) Template() string {
	var b strings.Builder
	say := liner(func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) })
	f.sayHead(say)
	say("")
	say("# The name of the cluster in the certificates and in the registry.")
	say("name: %s", f.Name)
	say("")
	say("# Each region gets a local partition at /REGION; the first one leads the global partition, the root of the tree.")
	say("regions: [%s]", strings.Join(regionNames(f.Regions), ", "))
	say("# Partitions (shards) of each region, and of the directories outside of the regions, over which new directories spread: 1 to 16.")
	say("# 'globalfs admin add-partition' adds more later.")
	sayShards(say, "partitions", f.Partitions)
	sayShards(say, "global_partitions", f.GlobalPartitions)
	say("# One server in each datacenter, named REGION and a letter. At least as many as replicas and copies.")
	say("datacenters: %d", f.Datacenters)
	say("# Replicas of each partition: 1, 3 or 5. A majority of them must be up for updates.")
	say("replicas: %d", f.Replicas)
	say("# Copies of each block in a region, in different datacenters.")
	say("copies: %d", f.Copies)
	say("")
	say("# Blocks can be in S3-compatible object storage instead of on the servers' disks; copies is then ignored. Every server and client needs")
	say("# credentials for it: see docs/blocks.md.")
	say("# objects: {endpoint: https://s3.us-west-2.amazonaws.com, bucket: my-blocks, prefix: globalfs, region: us-west-2}")
	say("")
	say("# The address of each server for the other servers and the clients: host:port.")
	say("addresses:")
	for _, name := range slices.Sorted(maps.Keys(f.Addresses)) {
		say("  %s: %s", name, f.Addresses[name])
	}
	say("")
	say("# The owner of the root directories of a new cluster.")
	say("owner: {uid: %d, gid: %d}", f.Owner.UID, f.Owner.GID)
	say("")
	f.Registry.say(say)
	say("")
	say("# The directory of 'globalfs certs'. Empty: no encryption and no authentication, on loopback addresses only.")
	say("certificates: %q", f.Certificates)
	say("")
	say("# What an acknowledged update survives: sync (a loss of power) or os (the end of the processes; what fsync has covered")
	say("# survives a loss of power also then). See docs/durability.md for the price of each.")
	say("durability: %s", f.Durability)
	say("")
	sayMulticast(say, f.Multicast)
	say("")
	say("# Connections between processes of one host: auto (through shared memory, and TCP where that is not possible) or off (TCP).")
	say("fabric: %s", f.Fabric)
	say("")
	say("# Each server stores its data in the directory data_dir/NAME.")
	say("data_dir: %q", f.DataDir)
	say("")
	say("gc:")
	say("  grace: %v   # how long an unused block is kept, for reads that began before", f.GC.Grace)
	say("  sweep: %v   # time between two searches for blocks that never became part of a file", f.GC.Sweep)
	return b.String()
}

// sayShards writes a number of partitions. 0 is the default: older versions do not know the key.
func sayShards(say liner, key string, n int) {
	if n == 0 {
		say("# %s: 1", key)
		return
	}
	say("%s: %d", key, n)
}

// sayMulticast writes the orders of partitions. The default is a comment: older versions do not know the key.
func sayMulticast(say liner, m topology.Multicast) {
	say("# The order of each partition with all replicas in one region: local: primcast, or tram (experimental: in one-sided memory). With tram,")
	say("# fabric selects its connections: auto (shared memory of one host, TCP otherwise), shm, soft (TCP) or verbs (RDMA). A cluster keeps its choice.")
	if m == (topology.Multicast{}) {
		say("# multicast: {local: primcast, fabric: auto}")
		return
	}
	m = m.OrDefaults()
	say("multicast: {local: %s, fabric: %s}", m.Local, m.Fabric)
}

// liner writes a line.
type liner func(format string, args ...any)

// sayHead writes the description of the file.
func (f *File) sayHead(say liner) {
	if f.Registry.File == "" {
		say("# A GlobalFS cluster. Start each server with this file: 'globalfs server NAME --config FILE'.")
		say("# The first server that starts copies the settings from name to addresses to the registry. From then on only addresses can be")
		say("# changed here; 'globalfs admin' changes the others.")
		return
	}
	say("# A GlobalFS cluster whose servers run in one process. Other commands find it by this file: 'globalfs status --config FILE'.")
	say("# That process writes it at each start: changes here are lost.")
}

// say writes the section of the registry.
func (r *RegistryFile) say(say liner) {
	if r.File != "" {
		say("# The registry of servers in one process.")
		say("registry: {file: %q}", r.File)
		return
	}
	say("# etcd stores the description of the cluster. While etcd is down, files are served; changes of the cluster wait.")
	say("registry:")
	say("  endpoints: [%s]", strings.Join(r.Endpoints, ", "))
	if r.CA == "" {
		say("  # ca: certs/etcd-ca.pem           # for https endpoints; paths are relative to this file")
		say("  # certificate: certs/etcd-client.pem")
		say("  # key: certs/etcd-client-key.pem")
	} else {
		say("  # By 'globalfs certs etcd'; paths are relative to this file. Leave these out if the system trusts etcd's CA, and etcd asks for no certificate.")
		say("  ca: %q", r.CA)
		say("  certificate: %q", r.Certificate)
		say("  key: %q", r.Key)
	}
	say("  # Accept http to another host. A host on the network between can then change the cluster.")
	say("  insecure: %v", r.Insecure)
	say("  # username: globalfs")
	say("  # password_file: etcd-password")
	say("  timeout: %v                 # time limit of one request", r.Timeout)
	say("  lease: %v                  # a server without a sign of life for this time is shown as down", r.Lease)
}

func regionNames(regions []topology.Region) (names []string) {
	for _, r := range regions {
		names = append(names, string(r))
	}
	return names
}
