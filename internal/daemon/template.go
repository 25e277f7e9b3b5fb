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
	line := lineWriter(func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) })
	f.writeHead(line)
	line("")
	line("# The name of the cluster in the certificates and in the registry.")
	line("name: %s", f.Name)
	line("")
	line("# Each region gets a local partition at /REGION; the first one leads the global partition, the root of the tree.")
	line("regions: [%s]", strings.Join(regionNames(f.Regions), ", "))
	line("# Partitions (shards) of each region, and of the directories outside of the regions, over which new directories spread: 1 to 16.")
	line("# 'globalfs admin add-partition' adds more later.")
	writeShards(line, "partitions", f.Partitions)
	writeShards(line, "global_partitions", f.GlobalPartitions)
	line("# One server in each datacenter, named REGION and a letter. At least as many as replicas and copies.")
	line("datacenters: %d", f.Datacenters)
	line("# Replicas of each partition: 1, 3 or 5. A majority of them must be up for updates.")
	line("replicas: %d", f.Replicas)
	line("# Copies of each block in a region, in different datacenters.")
	line("copies: %d", f.Copies)
	line("")
	line("# Blocks can be in S3-compatible object storage instead of on the servers' disks; copies is then ignored. Every server and client needs")
	line("# credentials for it: see docs/blocks.md.")
	line("# objects: {endpoint: https://s3.us-west-2.amazonaws.com, bucket: my-blocks, prefix: globalfs, region: us-west-2}")
	line("")
	line("# The address of each server for the other servers and the clients: host:port.")
	line("addresses:")
	for _, name := range slices.Sorted(maps.Keys(f.Addresses)) {
		line("  %s: %s", name, f.Addresses[name])
	}
	line("")
	line("# The owner of the root directories of a new cluster.")
	line("owner: {uid: %d, gid: %d}", f.Owner.UID, f.Owner.GID)
	line("")
	f.Registry.writeTo(line)
	line("")
	line("# The directory of 'globalfs certs'. Empty: no encryption and no authentication, on loopback addresses only.")
	line("certificates: %q", f.Certificates)
	line("")
	line("# What an acknowledged update survives: sync (a loss of power) or os (the end of the processes; what fsync has covered")
	line("# survives a loss of power also then). See docs/durability.md for the price of each.")
	line("durability: %s", f.Durability)
	line("")
	writeMulticast(line, f.Multicast)
	line("")
	line("# Connections between processes of one host: auto (through shared memory, and TCP where that is not possible) or off (TCP).")
	line("fabric: %s", f.Fabric)
	line("")
	line("# Each server stores its data in the directory data_dir/NAME.")
	line("data_dir: %q", f.DataDir)
	line("")
	line("gc:")
	line("  grace: %v   # how long an unused block is kept, for reads that began before", f.GC.Grace)
	line("  sweep: %v   # time between two searches for blocks that never became part of a file", f.GC.Sweep)
	return b.String()
}

// writeShards writes a number of partitions. 0 is the default: older versions do not know the key.
func writeShards(line lineWriter, key string, n int) {
	if n == 0 {
		line("# %s: 1", key)
		return
	}
	line("%s: %d", key, n)
}

// writeMulticast writes the orders of partitions. The default is a comment: older versions do not know the
// key.
func writeMulticast(line lineWriter, m topology.Multicast) {
	line("# The order of each partition with all replicas in one region: local: primcast, or tram (experimental: in one-sided memory). With tram,")
	line("# fabric selects its connections: auto (shared memory of one host, TCP otherwise), shm, soft (TCP) or verbs (RDMA). A cluster keeps its choice.")
	if m == (topology.Multicast{}) {
		line("# multicast: {local: primcast, fabric: auto}")
		return
	}
	m = m.OrDefaults()
	line("multicast: {local: %s, fabric: %s}", m.Local, m.Fabric)
}

// lineWriter writes a line.
type lineWriter func(format string, args ...any)

// writeHead writes the description of the file.
func (f *File) writeHead(line lineWriter) {
	if f.Registry.File == "" {
		line("# A GlobalFS cluster. Start each server with this file: 'globalfs server NAME --config FILE'.")
		line("# The first server that starts copies the settings from name to addresses to the registry. From then on only addresses can be")
		line("# changed here; 'globalfs admin' changes the others.")
		return
	}
	line("# A GlobalFS cluster whose servers run in one process. Other commands find it by this file: 'globalfs status --config FILE'.")
	line("# That process writes it at each start: changes here are lost.")
}

// writeTo writes the section of the registry.
func (r *RegistryFile) writeTo(line lineWriter) {
	if r.File != "" {
		line("# The registry of servers in one process.")
		line("registry: {file: %q}", r.File)
		return
	}
	line("# etcd stores the description of the cluster. While etcd is down, files are served; changes of the cluster wait.")
	line("registry:")
	line("  endpoints: [%s]", strings.Join(r.Endpoints, ", "))
	if r.CA == "" {
		line("  # ca: certs/etcd-ca.pem           # for https endpoints; paths are relative to this file")
		line("  # certificate: certs/etcd-client.pem")
		line("  # key: certs/etcd-client-key.pem")
	} else {
		line("  # By 'globalfs certs etcd'; paths are relative to this file. Leave these out if the system trusts etcd's CA, and etcd asks for no certificate.")
		line("  ca: %q", r.CA)
		line("  certificate: %q", r.Certificate)
		line("  key: %q", r.Key)
	}
	line("  # Accept http to another host. A host on the network between can then change the cluster.")
	line("  insecure: %v", r.Insecure)
	line("  # username: globalfs")
	line("  # password_file: etcd-password")
	line("  timeout: %v                 # time limit of one request", r.Timeout)
	line("  lease: %v                  # a server without a sign of life for this time is shown as down", r.Lease)
}

func regionNames(regions []topology.Region) (names []string) {
	for _, r := range regions {
		names = append(names, string(r))
	}
	return names
}
