package metrics

// Name is one measured value. Its String is its name in Prometheus. The name never changes, since dashboards
// and alerts use it.
type Name int

// Values of storage servers (labels: region, server).
const (
	StorageBlocks Name = iota
	StorageLiveBytes
	StorageDeadBytes
	StorageDiskBytes
	StorageFreeBytes
	StorageRingVersion
	StorageServersDown
	StorageMissingCopies
	StorageLostBlocks
	StorageFetchedBlocks
	StorageFetchedBytes
	StorageHandedBackBlocks
	StorageReleasedCopies
	StorageScrubbedBlocks
	StorageScrubbedBytes
	StorageCorruptFixed
	StorageCorruptLeft
	StorageCompactedBytes

	// Values of unneeded blocks (labels: partition).

	DataLiveBlocks
	DataLiveBytes
	DataDroppedBlocks
	DataDroppedBytes
	CollectedBlocks
	CollectedBytes

	// The same by region, of orphans (labels: region).

	OrphanBlocks
	OrphanBytes
	SweptBlocks
	SweptBytes
	SweepEnded

	// Values of replicas (labels: region, server, partition).

	ReplicaLeads
	ReplicaSeated
	ReplicaApplied
	ReplicaUndecided
	ReplicaHistories
	ReplicaMalformed
	ReplicaAge
	ReplicaRequests // and kind
	ReplicaAppends
	ReplicaSyncs
	ReplicaLongFrames
	ReplicaStopped
	ReplicaAmnesiac
	ReplicaDamaged
	ReplicaDiverged
	ReplicaOrder       // and order
	ReplicaMemorySlots // of a partition that is ordered in one-sided memory, as the following ones
	ReplicaMemoryUsed
	ReplicaMemoryCredits
	ReplicaMemoryRevocations
	ReplicaMemoryConnections // and fabric
	PartitionUnanswered      // of the server that reads

	// Values of servers (labels: region, server).

	ServerConnections // and peer, fabric

	// Values of mounts (label: mount).

	Operations      // and operation
	OperationErrors // and operation, errno
	ClientQueries   // and partition
	ClientUpdates   // and partition, partitions
	HeldDirectories
	UnorderedChanges
	LoggedChanges
	Recalls
	LostChanges
	CacheHits   // and cache
	CacheMisses // and cache
	CacheBytes  // and cache

	namesEnd
)

// kind is the Prometheus type of a value.
type kind int

const (
	gauge kind = iota
	counter
	durations
)

// definition is the description of a Name in a scrape.
type definition struct {
	name   string
	help   string
	kind   kind
	labels []string
}

var (
	perServer    = []string{"region", "server"}
	perPartition = []string{"partition"}
	perRegion    = []string{"region"}
	perReplica   = []string{"region", "server", "partition"}
	perCache     = []string{"mount", "cache"}
	perFabric    = []string{"region", "server", "peer", "fabric"}
)

var definitions = [namesEnd]definition{
	StorageBlocks:           {"globalfs_storage_blocks", "Blocks of which a storage server has a copy.", gauge, perServer},
	StorageLiveBytes:        {"globalfs_storage_live_bytes", "Bytes of these blocks.", gauge, perServer},
	StorageDeadBytes:        {"globalfs_storage_dead_bytes", "Bytes of deleted blocks that compaction has not given back yet.", gauge, perServer},
	StorageDiskBytes:        {"globalfs_storage_disk_bytes", "Size of the disk of a storage server.", gauge, perServer},
	StorageFreeBytes:        {"globalfs_storage_free_bytes", "What is free on it for blocks.", gauge, perServer},
	StorageRingVersion:      {"globalfs_storage_ring_version", "Version of the members of the region's ring that the server knows.", gauge, perServer},
	StorageServersDown:      {"globalfs_storage_servers_down", "Servers of its region that this one takes for down.", gauge, perServer},
	StorageMissingCopies:    {"globalfs_storage_missing_copies", "Copies that the server should have had and did not, in its last round of repair.", gauge, perServer},
	StorageLostBlocks:       {"globalfs_storage_lost_blocks", "Blocks of which the server found no good copy anywhere in the region, in its last round of repair.", gauge, perServer},
	StorageFetchedBlocks:    {"globalfs_storage_fetched_blocks_total", "Copies made by repair.", counter, perServer},
	StorageFetchedBytes:     {"globalfs_storage_fetched_bytes_total", "Bytes of copies made by repair.", counter, perServer},
	StorageHandedBackBlocks: {"globalfs_storage_handed_back_blocks_total", "Copies given to their owners.", counter, perServer},
	StorageReleasedCopies:   {"globalfs_storage_released_copies_total", "Copies dropped once all owners had theirs.", counter, perServer},
	StorageScrubbedBlocks:   {"globalfs_storage_scrubbed_blocks_total", "Blocks read by the scrubber.", counter, perServer},
	StorageScrubbedBytes:    {"globalfs_storage_scrubbed_bytes_total", "Bytes read by the scrubber.", counter, perServer},
	StorageCorruptFixed:     {"globalfs_storage_corrupt_fixed_total", "Bad copies that were replaced by good ones.", counter, perServer},
	StorageCorruptLeft:      {"globalfs_storage_corrupt_left_total", "Bad copies that could not be replaced when they were found.", counter, perServer},
	StorageCompactedBytes:   {"globalfs_storage_compacted_bytes_total", "Bytes of live blocks moved by compaction.", counter, perServer},

	DataLiveBlocks:    {"globalfs_data_live_blocks", "Blocks that files of a partition need.", gauge, perPartition},
	DataLiveBytes:     {"globalfs_data_live_bytes", "Bytes of these blocks, one copy of each.", gauge, perPartition},
	DataDroppedBlocks: {"globalfs_data_dropped_blocks", "Blocks that no file needs any more and that wait for the end of the grace period.", gauge, perPartition},
	DataDroppedBytes:  {"globalfs_data_dropped_bytes", "Bytes of these blocks, one copy of each.", gauge, perPartition},
	CollectedBlocks:   {"globalfs_gc_collected_blocks_total", "Dropped blocks deleted in the background.", counter, perPartition},
	CollectedBytes:    {"globalfs_gc_collected_bytes_total", "Bytes of these blocks, one copy of each.", counter, perPartition},

	OrphanBlocks: {"globalfs_gc_orphan_blocks", "Blocks that the last sweep found which no file ever got.", gauge, perRegion},
	OrphanBytes:  {"globalfs_gc_orphan_bytes", "Bytes of these blocks, one copy of each.", gauge, perRegion},
	SweptBlocks:  {"globalfs_gc_swept_blocks_total", "Orphans deleted in the background.", counter, perRegion},
	SweptBytes:   {"globalfs_gc_swept_bytes_total", "Bytes of these blocks, one copy of each.", counter, perRegion},
	SweepEnded:   {"globalfs_gc_last_sweep_timestamp_seconds", "When the last sweep ended, in seconds since 1970.", gauge, perRegion},

	ServerConnections: {"globalfs_server_connections", "Connections that peers (servers, clients and admins) have to a server, through tcp or shm (shared memory of one host).", gauge, perFabric},

	ReplicaLeads:     {"globalfs_replica_leads", "1 if the replica leads its partition, as far as it knows.", gauge, perReplica},
	ReplicaSeated:    {"globalfs_replica_seated", "0 while the replica is not yet a member of its partition's group.", gauge, perReplica},
	ReplicaApplied:   {"globalfs_replica_applied_total", "Commands of the partition that the replica has executed since the partition was made.", counter, perReplica},
	ReplicaUndecided: {"globalfs_replica_undecided_commands", "Commands of several partitions that wait for the votes of others.", gauge, perReplica},
	ReplicaHistories: {"globalfs_replica_histories_total", "How often the partition has lost entries that a client had seen, and began a new history.", counter, perReplica},
	ReplicaMalformed: {"globalfs_replica_malformed_frames_total", "Frames of other replicas that were malformed: of another version, or a bug.", counter, perReplica},
	ReplicaAge:       {"globalfs_replica_age_seconds", "Since the replica last knew that a quorum ordered something: what it reads is not older.", gauge, perReplica},
	ReplicaRequests: {"globalfs_replica_request_seconds", "From a request to the replica's answer: of kind update this is the time to order, log and execute it.", durations,
		[]string{"region", "server", "partition", "kind"}},
	ReplicaAppends:  {"globalfs_log_append_seconds", "To write, and with durability sync to sync, what one turn of the replica adds to its log.", durations, perReplica},
	ReplicaSyncs:    {"globalfs_log_sync_seconds", "To sync the log because something leaves for another partition; with durability sync that was done before.", durations, perReplica},
	ReplicaDiverged: {"globalfs_replica_diverged", "1 if the replica has another state than others of its partition after the same entry.", gauge, perReplica},
	ReplicaStopped:  {"globalfs_replica_stopped", "1 if the replica has stopped for good, or fails again and again: the log of the server has the reason.", gauge, perReplica},
	ReplicaAmnesiac: {"globalfs_replica_amnesiac", "1 if the replica has lost power with durability os, and has no vote until it has the state of others.", gauge, perReplica},
	ReplicaDamaged:  {"globalfs_replica_damaged", "1 if the replica does not run since its log or store is damaged, was rolled back, or has diverged.", gauge, perReplica},
	ReplicaOrder: {"globalfs_replica_order", "1 for the order of the partition: primcast, or tram (in one-sided memory).", gauge,
		[]string{"region", "server", "partition", "order"}},
	ReplicaMemorySlots:       {"globalfs_replica_memory_slots", "Slots of each ring in the one-sided memory of the replica.", gauge, perReplica},
	ReplicaMemoryUsed:        {"globalfs_replica_memory_used_slots", "At the leader: slots in use in the fullest of the replicas' logs; 0 at others.", gauge, perReplica},
	ReplicaMemoryCredits:     {"globalfs_replica_memory_credits", "Free slots for proposals of the replica in the inputs of its group.", gauge, perReplica},
	ReplicaMemoryRevocations: {"globalfs_replica_memory_revocations_total", "How often the replica has revoked the right of another one to write its memory, since it began.", counter, perReplica},
	ReplicaMemoryConnections: {"globalfs_replica_memory_connections", "Other replicas whose memory the replica has reached, through tcp, shm (shared memory of one host) or verbs (RDMA).", gauge,
		[]string{"region", "server", "partition", "fabric"}},
	PartitionUnanswered: {"globalfs_partition_unanswered_seconds", "How long the partition has not answered the canary reads of the server; 0 if it answers.", gauge, perReplica},
	ReplicaLongFrames:   {"globalfs_replica_long_frames_total", "Frames to other replicas that were dropped because they were longer than a link carries: a bug.", counter, perReplica},

	Operations:      {"globalfs_fuse_operation_seconds", "From the kernel's request to the answer.", durations, []string{"mount", "operation"}},
	OperationErrors: {"globalfs_fuse_errors_total", "Operations that were answered with an error.", counter, []string{"mount", "operation", "errno"}},
	ClientQueries:   {"globalfs_client_query_seconds", "From a read of metadata to a replica's answer.", durations, []string{"mount", "partition"}},
	ClientUpdates: {"globalfs_client_update_seconds", "From an update to a replica's answer, by the partition that was asked and how many partitions it concerns.", durations,
		[]string{"mount", "partition", "partitions"}},
	HeldDirectories:  {"globalfs_held_directories", "Directories that the mount holds exclusively (--delegate).", gauge, []string{"mount"}},
	UnorderedChanges: {"globalfs_unordered_changes", "Changes that were answered and are not ordered yet.", gauge, []string{"mount"}},
	LoggedChanges:    {"globalfs_logged_changes_total", "Changes that were answered before their order.", counter, []string{"mount"}},
	Recalls:          {"globalfs_recalls_total", "Held directories that servers have recalled.", counter, []string{"mount"}},
	LostChanges:      {"globalfs_lost_changes_total", "Changes that were answered and could not be ordered.", counter, []string{"mount"}},
	CacheHits:        {"globalfs_cache_hits_total", "Blocks that a cache of the mount had.", counter, perCache},
	CacheMisses:      {"globalfs_cache_misses_total", "Blocks that a cache of the mount was asked for and did not have.", counter, perCache},
	CacheBytes:       {"globalfs_cache_bytes", "Size of a cache of the mount now.", gauge, perCache},
}

// String returns the name of n in Prometheus.
func (n Name) String() string { return definitions[n].name }
