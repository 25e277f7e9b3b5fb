package daemon

// growth records a partition that is being added, and one over which its region does not spread directories
// yet.
func (j *judge) growth(answers []Answer) {
	if p := j.plan.Adding(); p != nil {
		waits := ""
		for _, a := range answers {
			if g := a.Status.Growth; g != nil && g.Partition == p.ID && g.State == string(p.State) && g.Waits != "" {
				waits = ": " + g.Waits
			}
		}
		j.add(Problem{Code: PartitionAdding, Level: LevelInfo}, "partition %d (%s) is being added%s", p.ID, p.Path, waits)
		return
	}
	for i := range j.health.Partitions {
		p := &j.health.Partitions[i]
		if shards := j.plan.Shards(p.Region); p.Spread > 0 && p.Spread < len(shards) && p.ID < shards[len(shards)-1] {
			j.add(Problem{Code: PartitionAdding, Level: LevelInfo}, "%s does not spread new directories over partition %d yet", j.name(p.ID), shards[p.Spread])
		}
	}
}
