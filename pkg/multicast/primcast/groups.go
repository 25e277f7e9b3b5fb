package primcast

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Groups may be added while the processes run; the groups of the thesis are fixed. For the protocol an added
// group is a group that has existed from the start and has not sent anything yet. The caller ensures the two
// conditions of this claim:
//
//   - A process of the new group starts only after all processes of the other groups know the group, durably.
//     So no process drops its frames as those of a stranger.
//   - No process multicasts to the new group before that.
//
// A checkpoint has the state of all groups that are known when it is written. A process that replays it
// starts groups that were added later in their initial state.

// AddGroup adds a group between two steps. After an error nothing has changed.
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

// appendCheckpointKind writes the kind of a checkpoint. If no group was added, it is the kind that older
// versions can read.
func (c *system) appendCheckpointKind(b []byte) []byte {
	if len(c.groupIDs) == c.config.Founded {
		return append(b, recordCheckpoint)
	}
	return varint.AppendUint(append(b, recordGrown), uint64(len(c.groupIDs)))
}
