package primcast

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Groups may be added to the configuration while the processes run (the paper's groups are fixed). To the
// protocol an added group is one that was there from the start, and that no process has heard of yet. Two
// conditions make this true, and are those of the caller:
//
//   - A process of the new group starts only after all processes of the other groups know the group, now and
//     after restarts. Its frames are then never those of a stranger, which are dropped.
//   - A message to the new group is multicast only after that, too.
//
// A checkpoint has the state of all groups that are known when it is written. Groups that were added later
// begin with their initial state.

// AddGroup makes a new group known to the process between two steps. It returns an error, and changes
// nothing, if the group cannot be added.
func (c *delivery) AddGroup(g multicast.Group) error {
	grown := c.config
	grown.Groups = append(grown.Groups[:len(grown.Groups):len(grown.Groups)], g)
	if err := grown.Validate(); err != nil {
		return err
	}
	for _, id := range g.Members {
		if q := c.peers[id]; q != nil && q.group != nil {
			return fmt.Errorf("primcast: process %d of the new group %d belongs to group %d: number processes anew", id, g.ID, q.group.id)
		}
	}
	c.config = grown
	c.addGroup(&g)
	for _, q := range c.groups[g.ID].members() {
		if q.linked {
			c.startLink(q)
		}
	}
	return nil
}

// appendCheckpointKind writes the kind of a checkpoint. As long as no group was added, it is the kind that
// older versions know.
func (c *system) appendCheckpointKind(b []byte) []byte {
	if len(c.groupIDs) == c.config.Founded {
		return append(b, recordCheckpoint)
	}
	return varint.AppendUint(append(b, recordGrown), uint64(len(c.groupIDs)))
}
