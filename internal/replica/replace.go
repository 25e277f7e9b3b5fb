package replica

import (
	"maps"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// replaceAgain is how often the cores are asked for a replacement until it is done.
const replaceAgain = time.Second

// Replace has a process take the place of a member of the partition's group, in both orders, if it has not
// yet. What is replaced again later stands before that.
func (r *Replica) Replace(p multicast.Replacement) {
	r.replace = append(r.replace, p)
	r.pursueNow()
}

// pursueReplacements asks for those that are not done. Of a chain the last process comes in at once: the
// others may be gone.
func (r *Replica) pursueReplacements() {
	if len(r.replace) == 0 {
		return
	}
	group := multicast.GroupID(r.cfg.Partition)
	local, cross := r.cores.local.Members(group), r.cores.cross.Members(group)
	var gone []multicast.ProcessID // replaced by one that is a member now
	for i := len(r.replace) - 1; i >= 0; i-- {
		p := r.replace[i]
		if slices.Contains(gone, p.New) || slices.Contains(local, p.New) && slices.Contains(cross, p.New) {
			gone = append(gone, p.Old)
			r.replace = slices.Delete(r.replace, i, i+1)
		}
	}
	if r.now.Mono >= r.replaceAt {
		r.replaceAt = r.now.Mono + replaceAgain
		for _, p := range r.replace {
			p.New = r.lastAfter(p.New)
			r.cores.localIn.Replace = append(r.cores.localIn.Replace, p)
			r.cores.crossIn.Replace = append(r.cores.crossIn.Replace, p)
		}
	}
	if len(r.replace) > 0 {
		r.pursueBy(r.replaceAt)
	}
}

// lastAfter gives the process that is to have the place of p in the end.
func (r *Replica) lastAfter(p multicast.ProcessID) multicast.ProcessID {
	for _, next := range r.replace {
		if next.Old == p {
			p = next.New
		}
	}
	return p
}

// refuseAll answers everybody who waits at this replica, which is a member of its group no more. What it has
// proposed may still be ordered: a client that repeats it elsewhere under the same number gets its outcome.
func (r *Replica) refuseAll(out *turn.Output) {
	refuse := func(tokens ...uint64) { out.Replies = r.answerAll(tokens, ask.Replaced, nil, out.Replies) }
	for _, id := range slices.SortedFunc(maps.Keys(r.pending), multicast.MessageID.Compare) {
		refuse(r.pending[id].tokens...)
	}
	for _, id := range slices.SortedFunc(maps.Keys(r.crossing), multicast.MessageID.Compare) {
		refuse(r.crossing[id].tokens...)
	}
	for _, c := range r.commands {
		refuse(c.tokens...)
		c.tokens = nil
	}
	for _, waiting := range [][]waitingUpdate{r.outside, r.behind} {
		for _, w := range waiting {
			refuse(w.call.Token)
		}
	}
	for _, waiting := range [][]parked{r.parked, r.fresh, r.fenced} {
		for _, p := range waiting {
			refuse(p.token)
		}
	}
	clear(r.pending)
	clear(r.crossing)
	clear(r.byUpdate)
	r.outside, r.behind, r.parked, r.fresh, r.fenced = nil, nil, nil, nil, nil
}
