package topology

import (
	"fmt"
	"reflect"
)

// Adopt copies into s the history of the cluster that was contains: s is a changed cluster file, and was the
// description that the cluster has used. Adopt fails if both describe different clusters: a cluster keeps its
// regions and the replication of its data. Only the addresses of its servers and the access to its object
// storage may change.
func (s *Spec) Adopt(was Spec) error {
	now := *s
	now.Version, now.Created, now.Owner = was.Version, was.Created, was.Owner
	now.Added = was.Added
	now.Replaced, now.StorageChanges, now.Revoked, now.Restored = was.Replaced, was.StorageChanges, was.Revoked, was.Restored
	was.Objects = was.Objects.Reached(now.Objects)
	was.Addresses = now.Addresses
	if before, after := was.Multicast.OrDefaults(), now.Multicast.OrDefaults(); before != after {
		return fmt.Errorf("multicast: the cluster was made with local: %s, fabric: %s, and the file says local: %s, fabric: %s: a cluster keeps its choice: restore it in the file",
			before.Local, before.Fabric, after.Local, after.Fabric)
	}
	now.Multicast = was.Multicast
	same := func(s Spec) Spec {
		s.Partitions, s.GlobalPartitions = max(1, s.Partitions), max(1, s.GlobalPartitions)
		return s
	}
	if !reflect.DeepEqual(same(was), same(now)) {
		return fmt.Errorf("the data was made for another cluster:\n%sthis one is:\n%s", was.YAML(), now.YAML())
	}
	*s = now
	return nil
}
