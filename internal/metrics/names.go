package metrics

// Name is one thing that is measured. Its String is the name that Prometheus knows it by: for ever, since dashboards and
// alerts use it.
type Name int

// What is measured of storage servers (labels: region, server).
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

	// What is measured of blocks that nobody needs (labels: partition).

	DataLiveBlocks
	DataLiveBytes
	DataDroppedBlocks
	DataDroppedBytes
	CollectedBlocks
	CollectedBytes

	// The same by region, of blocks that were never written to a file (labels: region).

	OrphanBlocks
	OrphanBytes
	SweptBlocks
	SweptBytes
	SweepEnded

	namesEnd
)

// definition is what a scrape says of a Name.
type definition struct {
	name    string
	help    string
	counter bool // else a gauge
	labels  []string
}

var (
	perServer    = []string{"region", "server"}
	perPartition = []string{"partition"}
	perRegion    = []string{"region"}
)

var definitions = [namesEnd]definition{
	StorageBlocks:           {"globalfs_storage_blocks", "Blocks of which a storage server has a copy.", false, perServer},
	StorageLiveBytes:        {"globalfs_storage_live_bytes", "Bytes of these blocks.", false, perServer},
	StorageDeadBytes:        {"globalfs_storage_dead_bytes", "Bytes of deleted blocks that compaction has not given back yet.", false, perServer},
	StorageDiskBytes:        {"globalfs_storage_disk_bytes", "Size of the disk of a storage server.", false, perServer},
	StorageFreeBytes:        {"globalfs_storage_free_bytes", "What is free on it for blocks.", false, perServer},
	StorageRingVersion:      {"globalfs_storage_ring_version", "Version of the members of the region's ring that the server knows.", false, perServer},
	StorageServersDown:      {"globalfs_storage_servers_down", "Servers of its region that this one takes for down.", false, perServer},
	StorageMissingCopies:    {"globalfs_storage_missing_copies", "Copies that the server should have had and did not, in its last round of repair.", false, perServer},
	StorageLostBlocks:       {"globalfs_storage_lost_blocks", "Blocks of which the server found no good copy anywhere in the region, in its last round of repair.", false, perServer},
	StorageFetchedBlocks:    {"globalfs_storage_fetched_blocks_total", "Copies made by repair.", true, perServer},
	StorageFetchedBytes:     {"globalfs_storage_fetched_bytes_total", "Bytes of copies made by repair.", true, perServer},
	StorageHandedBackBlocks: {"globalfs_storage_handed_back_blocks_total", "Copies given to their owners.", true, perServer},
	StorageReleasedCopies:   {"globalfs_storage_released_copies_total", "Copies dropped once all owners had theirs.", true, perServer},
	StorageScrubbedBlocks:   {"globalfs_storage_scrubbed_blocks_total", "Blocks read by the scrubber.", true, perServer},
	StorageScrubbedBytes:    {"globalfs_storage_scrubbed_bytes_total", "Bytes read by the scrubber.", true, perServer},
	StorageCorruptFixed:     {"globalfs_storage_corrupt_fixed_total", "Bad copies that were replaced by good ones.", true, perServer},
	StorageCorruptLeft:      {"globalfs_storage_corrupt_left_total", "Bad copies that could not be replaced when they were found.", true, perServer},
	StorageCompactedBytes:   {"globalfs_storage_compacted_bytes_total", "Bytes of live blocks moved by compaction.", true, perServer},

	DataLiveBlocks:    {"globalfs_data_live_blocks", "Blocks that files of a partition need.", false, perPartition},
	DataLiveBytes:     {"globalfs_data_live_bytes", "Bytes of these blocks, one copy of each.", false, perPartition},
	DataDroppedBlocks: {"globalfs_data_dropped_blocks", "Blocks that no file needs any more and that wait for the end of the grace period.", false, perPartition},
	DataDroppedBytes:  {"globalfs_data_dropped_bytes", "Bytes of these blocks, one copy of each.", false, perPartition},
	CollectedBlocks:   {"globalfs_gc_collected_blocks_total", "Dropped blocks deleted in the background.", true, perPartition},
	CollectedBytes:    {"globalfs_gc_collected_bytes_total", "Bytes of these blocks, one copy of each.", true, perPartition},

	OrphanBlocks: {"globalfs_gc_orphan_blocks", "Blocks that the last sweep found which no file ever got.", false, perRegion},
	OrphanBytes:  {"globalfs_gc_orphan_bytes", "Bytes of these blocks, one copy of each.", false, perRegion},
	SweptBlocks:  {"globalfs_gc_swept_blocks_total", "Orphans deleted in the background.", true, perRegion},
	SweptBytes:   {"globalfs_gc_swept_bytes_total", "Bytes of these blocks, one copy of each.", true, perRegion},
	SweepEnded:   {"globalfs_gc_last_sweep_timestamp_seconds", "When the last sweep ended, in seconds since 1970.", false, perRegion},
}

// String gives the name that Prometheus knows n by.
func (n Name) String() string { return definitions[n].name }
