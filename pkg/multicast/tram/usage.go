package tram

// Usage tells how full the rings of a process are.
type Usage struct {
	Slots int // of each ring
	// Used is the number of slots with entries that a member has not applied, as far as the leader knows, in
	// the log of the member with the most of them. It is 0 at a follower.
	Used    int
	Credits int // free slots for messages of this process in the inputs of its group
}

// Usage returns the present usage. It is called between two steps.
func (c *Core) Usage() Usage {
	u := Usage{Slots: c.cfg.Slots, Credits: c.cfg.Slots}
	if f := c.clients[c.group.ID]; f != nil {
		u.Credits -= min(c.cfg.Slots, len(f.entries))
	}
	if c.role != leader {
		return u
	}
	for _, m := range c.members {
		applied := c.ledger.applied
		if m.id != c.cfg.Self {
			applied = min(c.peers[m.id].received.applied, c.ledger.last())
		}
		u.Used = max(u.Used, int(min(uint64(c.cfg.Slots), c.ledger.last()-applied)))
	}
	return u
}
