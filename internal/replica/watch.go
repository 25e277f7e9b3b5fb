package replica

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A client that caches names and attributes watches the partition at one replica: it requests the changes
// after a place of the order, and gets them in order (ask.Watch). The replica keeps the changes of the last
// places, for all clients together. Of a single client it keeps only the waiting request, so the client may
// continue at any replica. If a client is further behind than the kept places, or was at a place that this
// order does not have, the answer is that anything may have changed.
//
// A bound client gets the names of a directory only if one of its users may list the directory.

// Bounds of the kept changes.
const (
	maxPlaces = 1 << 14
	maxKept   = 1 << 16 // changes: about three for each update of a name
	// MaxWatchesOfClient is the maximum number of waiting watch requests of a bound client at a replica.
	MaxWatchesOfClient = 64
)

// watches are the changes of the last places of the order, and the requests that wait for later changes.
type watches struct {
	machine *meta.Machine
	most    int // maximum number of waiting requests
	reply   func(token uint64, s ask.Outcome, result []byte) turn.Call
	// recalled returns the directories that a session is asked to return.
	recalled func(session uint64) []posix.Ino

	history uint64
	base    uint64  // the number of the place before the first kept one
	mark    uint64  // the mark of that place
	places  []place // the kept places, without gaps
	kept    int     // number of changes in places
	scanned uint64  // waiting requests were answered up to this place
	parked  []*watch
}

// place has the changes of one entry of the order.
type place struct {
	mark    uint64 // of the entry: see markOf
	session uint64 // session of the update; 0: it has none, or is of several partitions
	changes []meta.Change
}

// watch is a waiting request.
type watch struct {
	call turn.Call
	ask.Request
	ask.Watching
	until time.Duration
}

// markOf returns a number that differs for different entries at the same place. A place has different entries
// if the partition has lost one of them.
func markOf(p multicast.Position) uint64 {
	const spread = 0x9e3779b97f4a7c15
	return uint64(p.Final)*spread ^ uint64(p.ID.Sender)<<48 ^ p.ID.Seq
}

// begin forgets all kept places. The next kept place is the one after own.
func (w *watches) begin(own ask.Seen, mark uint64) {
	w.history, w.base, w.mark, w.scanned = own.History, own.Count, mark, own.Count
	w.places, w.kept = nil, 0
}

// end returns the last kept place.
func (w *watches) end() uint64 { return w.base + uint64(len(w.places)) }

// note keeps the changes of the entry that was just executed.
func (w *watches) note(own ask.Seen, mark, session uint64) {
	changes, all := meta.TakeChanges(w.machine)
	if all || own.History != w.history || own.Count != w.end()+1 {
		w.begin(own, mark)
		return
	}
	w.keep(place{mark, session, changes})
}

// keep adds a place, and forgets the oldest ones if there are too many.
func (w *watches) keep(p place) {
	w.places, w.kept = append(w.places, p), w.kept+len(p.changes)
	n := 0
	for ; len(w.places)-n > maxPlaces || w.kept > maxKept; n++ {
		w.kept -= len(w.places[n].changes)
		w.base, w.mark = w.base+1, w.places[n].mark
	}
	if n > 0 {
		clear(w.places[:n])
		w.places = w.places[n:]
	}
}

// markAt returns the mark of a kept place, or of the one before these.
func (w *watches) markAt(place uint64) uint64 {
	if place == w.base {
		return w.mark
	}
	return w.places[place-w.base-1].mark
}

// isLost reports whether the changes after the place of a request are not kept.
func (w *watches) isLost(q *watch) bool {
	if q.History != w.history || q.From < w.base {
		return true
	}
	return q.From <= w.end() && q.Mark != w.markAt(q.From)
}

// after returns the kept places after a place.
func (w *watches) after(from uint64) []place {
	return w.places[min(max(from, w.base), w.end())-w.base:]
}

// isUrgent reports whether a request must be answered at once: places contain a change of another client that
// concerns this one.
func isUrgent(q *watch, places []place) bool {
	return slices.ContainsFunc(places, func(p place) bool {
		if p.session != 0 && p.session == q.Session {
			return false
		}
		return slices.ContainsFunc(p.changes, func(c meta.Change) bool {
			return (q.Attrs || isOfNames(c.Kind)) && q.Interest.Has(c.Ino)
		})
	})
}

// isOfNames reports whether a kind of change concerns only the names of a directory.
func isOfNames(k meta.ChangeKind) bool { return k == meta.ChangedName || k == meta.ChangedNames }

// add answers a request to watch, or keeps it until there are changes.
func (w *watches) add(call turn.Call, request ask.Request, now time.Duration, replies []turn.Call) []turn.Call {
	asked, err := ask.DecodeWatching(request.Command)
	if err != nil {
		return append(replies, w.reply(call.Token, ask.Refused, []byte(err.Error())))
	}
	q := &watch{call: call, Request: request, Watching: asked, until: now + asked.Linger}
	switch {
	case asked.Linger == 0 || w.isLost(q) || w.isRecalled(q) || isUrgent(q, w.after(q.From)):
		return append(replies, w.answer(q))
	case len(w.parked) >= w.most || call.From.Bounds() != nil && w.of(call.From.Owner()) >= MaxWatchesOfClient:
		return append(replies, w.reply(call.Token, ask.Overloaded, nil))
	}
	w.parked = append(w.parked, q)
	return replies
}

// isRecalled reports whether the request asks for recalls, and its session has a directory to return.
func (w *watches) isRecalled(q *watch) bool { return q.Recalls && len(w.recalled(q.Session)) > 0 }

// of returns the number of waiting requests of a client.
func (w *watches) of(owner string) (n int) {
	for _, q := range w.parked {
		if q.call.From.Owner() == owner {
			n++
		}
	}
	return n
}

// answerNew answers the requests that wait for one of the newly committed places.
func (w *watches) answerNew(replies []turn.Call) []turn.Call {
	added := w.after(w.scanned)
	w.scanned = w.end()
	return w.answerAll(replies, func(q *watch) bool { return w.isLost(q) || w.isRecalled(q) || isUrgent(q, added) })
}

// expire answers the requests that have reached their deadlines.
func (w *watches) expire(now time.Duration, replies []turn.Call) []turn.Call {
	return w.answerAll(replies, func(q *watch) bool { return now >= q.until })
}

func (w *watches) answerAll(replies []turn.Call, isDue func(q *watch) bool) []turn.Call {
	if len(w.parked) == 0 {
		return replies
	}
	w.parked = slices.DeleteFunc(w.parked, func(q *watch) bool {
		if !isDue(q) {
			return false
		}
		replies = append(replies, w.answer(q))
		return true
	})
	return replies
}

// answer answers a request to watch.
func (w *watches) answer(q *watch) turn.Call {
	c := ask.Changes{History: w.history, From: q.From, To: w.end(), Lost: w.isLost(q), Attrs: q.Attrs}
	if q.Recalls {
		c.Recalled = w.recalled(q.Session)
	} else if !c.Lost {
		c.List, c.To = w.list(q)
		w.withhold(q.call.From, c.List)
	}
	c.Mark = w.markAt(c.To)
	return w.reply(q.call.Token, ask.Answered, c.Append(nil))
}

// list returns the changes for a request, and the place up to which they are complete.
func (w *watches) list(q *watch) (list []ask.Change, to uint64) {
	to = min(q.From, w.end())
	for _, p := range w.after(q.From) {
		if len(list) > 0 && len(list)+len(p.changes) > ask.MaxChanges {
			break
		}
		to++
		for _, c := range p.changes {
			if c.Kind == meta.ChangedAttr && !q.Attrs {
				continue
			}
			list = append(list, ask.Change{Change: c, Place: to, Own: p.session != 0 && p.session == q.Session})
		}
	}
	return list, to
}

// withhold removes the names in directories that the client may not list.
func (w *watches) withhold(from *ask.Client, list []ask.Change) {
	bounds := from.Bounds()
	if bounds == nil {
		return
	}
	may, ways := map[posix.Ino]bool{}, map[posix.Ino]bool{} // by directory
	for i := range list {
		c := &list[i]
		if c.Kind != meta.ChangedName {
			continue
		}
		if _, known := may[c.Ino]; !known {
			may[c.Ino] = meta.MayList(w.machine, bounds, c.Ino, ways)
		}
		if !may[c.Ino] {
			c.Kind, c.Name = meta.ChangedNames, ""
		}
	}
}

// wake returns the time of the next answer that is due; 0: none.
func (w *watches) wake() (at time.Duration) {
	for _, q := range w.parked {
		if at == 0 || q.until < at {
			at = q.until
		}
	}
	return at
}

// withdraw removes the requests of clients that have given up.
func (w *watches) withdraw(tokens []uint64) {
	w.parked = slices.DeleteFunc(w.parked, func(q *watch) bool { return slices.Contains(tokens, q.call.Token) })
}

// takeCalls removes all requests, and returns the tokens of their calls.
func (w *watches) takeCalls() (tokens []uint64) {
	for _, q := range w.parked {
		tokens = append(tokens, q.call.Token)
	}
	w.parked = nil
	return tokens
}
