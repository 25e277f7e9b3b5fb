package topology

import (
	"fmt"
	"reflect"
)

// Adopt takes over from was, the description that a cluster has had until now, what has happened since s was
// written by a person. It fails if they are of different clusters: a cluster keeps its regions and how its
// data are replicated. What may change is how its object storage is reached, and at which addresses its
// servers listen.
func (s *Spec) Adopt(was Spec) error {
	now := *s
	now.Version, now.Created, now.Owner = was.Version, was.Created, was.Owner
	now.Replaced, now.StorageChanges, now.Revoked, now.Restored = was.Replaced, was.StorageChanges, was.Revoked, was.Restored
	was.Objects = was.Objects.Reached(now.Objects)
	was.Addresses = now.Addresses
	if !reflect.DeepEqual(was, now) {
		return fmt.Errorf("the data was made for another cluster:\n%sthis one is:\n%s", was.YAML(), now.YAML())
	}
	*s = now
	return nil
}
