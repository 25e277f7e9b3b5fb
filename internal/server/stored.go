package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/session"
)

// A write of a bound client is ordered only if its blocks are stored. Otherwise a client could make
// unreadable files, which fsck and status would report as lost blocks. The server of the called replica
// checks the blocks before the replica gets the request. The result remains valid until the write is
// executed: a block of an open session that is not below the session's horizon is not garbage (package
// replica, garbage.go), and the content of a block never changes. The replica refuses all other blocks.
//
// Therefore the session must be open when the check begins. Sessions never open twice, and a write has an
// effect only while its session is open. Otherwise a client could store a block for a session that it opens
// later, after the check and after a sweep that deleted the block. A replica that does not know the session
// may lag behind the replica that opened it, so it passes a barrier before the session counts as unknown.
//
// It is enough that the session was open at some time before the check, because a write has no effect after
// its session has ended. So the replica is asked once for each session (hosted.opened) and not for each
// write: an answer takes a turn and perhaps a sync.
//
// The writes of clients with user 0 are not checked: these clients are trusted like servers.

// Time limit, number of attempts and pause of the search for a block. A single attempt may miss a block that
// moves between storage servers at that moment.
const (
	storedTimeout = 10 * time.Second
	storedTries   = 2
	storedPause   = 50 * time.Millisecond
)

// maxOpened bounds hosted.opened. If a session is forgotten, the replica is asked again.
const maxOpened = 4096

// checkStored checks the blocks in a request of a bound client. It returns the refusal if a block is not
// stored; nil: the replica handles the request.
func (s *Server) checkStored(ctx context.Context, h *hosted, client *ask.Client, request []byte) []byte {
	if client.Bounds() == nil || len(request) == 0 || ask.Kind(request[0]) != ask.Update {
		return nil
	}
	q, err := ask.DecodeRequest(request)
	if err != nil {
		return nil // the replica refuses the malformed request
	}
	c, err := meta.DecodeCommand(q.Command)
	if err != nil || c.Op != meta.OpWrite || len(c.Blocks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storedTimeout)
	defer cancel()
	name := session.Name{Session: q.Session, Client: client.Owner()}
	if _, opened := h.opened.Get(name); opened {
		refusal := s.checkBlocks(ctx, h, &q, c.Blocks)
		if refusal == nil {
			return nil
		}
		if v, err := h.admit(ctx, &q, client); err == nil && !v.Execute {
			return nil // the replica has answered the update before, and its blocks may be deleted since
		}
		return refusal
	}
	v, err := h.admit(ctx, &q, client)
	switch {
	case err != nil:
		return (&ask.Reply{Status: ask.Overloaded}).Append(nil)
	case v.Outcome == ask.UnknownSession:
		return (&ask.Reply{Status: ask.UnknownSession}).Append(nil)
	}
	h.opened.Put(name, struct{}{})
	if !v.Execute {
		return nil
	}
	return s.checkBlocks(ctx, h, &q, c.Blocks)
}

// checkBlocks checks the blocks of a write. It returns the refusal if one is not stored; nil: the replica
// handles the write.
func (s *Server) checkBlocks(ctx context.Context, h *hosted, q *ask.Request, blocks []meta.Block) []byte {
	ids := make([]block.ID, len(blocks))
	for i, b := range blocks {
		if b.ID.Partition() != h.partition || b.ID.Session() != q.Session {
			return nil // the replica refuses the write, and must not search for so many blocks
		}
		ids[i] = b.ID
	}
	var err error
	for range storedTries {
		lengths, unknown := s.lengths(ctx, h.partition, ids)
		if err = checkLengths(blocks, lengths); err == nil {
			return nil
		}
		if unknown = errors.Join(unknown, pause.For(ctx, storedPause)); unknown != nil {
			s.cfg.Logger.Debug("storage servers do not tell whether the blocks of a write are stored: the client has to try again",
				"server", s.cfg.Name, "partition", h.partition, "error", unknown)
			return (&ask.Reply{Status: ask.Overloaded}).Append(nil)
		}
	}
	return (&ask.Reply{Status: ask.Refused, Result: []byte(err.Error())}).Append(nil)
}

// admit returns the replica's decision on an update. If the client has got the answer to the opening of its
// session, the replica decides in a state that has the session.
func (h *hosted) admit(ctx context.Context, q *ask.Request, client *ask.Client) (v session.Verdict, err error) {
	u := session.Update{Session: q.Session, Seq: q.Seq, Done: q.Done}
	for first := true; ; first = false {
		verdict := make(chan session.Verdict, 1)
		if err := h.driver.Between(ctx, func() { verdict <- h.replica.Admit(u, client) }); err != nil {
			return v, err
		}
		if v = <-verdict; v.Outcome != ask.UnknownSession || !first {
			return v, nil
		}
		if err := h.passBarrier(ctx); err != nil {
			return v, err
		}
	}
}

// passBarrier returns after the replica has executed all entries that were answered anywhere in its partition
// before the call.
func (h *hosted) passBarrier(ctx context.Context) error {
	query := ask.Request{Kind: ask.Query, Fresh: true, Command: (&meta.Command{Op: meta.OpStatFS}).Append(nil)}
	answer, err := h.driver.Handle(ctx, nil, query.Append(nil))
	if err != nil {
		return err
	}
	reply, err := ask.DecodeReply(answer)
	if err == nil && reply.Status != ask.Answered {
		err = fmt.Errorf("the replica of partition %d does not pass a barrier: outcome %d", h.partition, reply.Status)
	}
	return err
}

// checkLengths returns an error for the first block of a write that is not stored, or is stored with fewer
// bytes than the write names.
func checkLengths(blocks []meta.Block, lengths []uint32) error {
	for i, b := range blocks {
		if lengths[i] < b.Length {
			return fmt.Errorf("write: block %v of %d bytes: the region stores %d bytes of it: put the block before the write", b.ID, b.Length, lengths[i])
		}
	}
	return nil
}

// lengths returns the length of each block of a partition in bytes; 0 for a block that is not stored.
// Together with an error, the length of a stored block may also be 0.
func (s *Server) lengths(ctx context.Context, partition uint16, ids []block.ID) ([]uint32, error) {
	lengths := make([]uint32, len(ids))
	if node := s.Storage(); node != nil && s.plan.Load().Objects == nil {
		if near, err := node.node.Lengths(ctx, ids); err == nil {
			lengths = near
		}
	}
	if !slices.Contains(lengths, 0) || s.cfg.Lengths == nil {
		return lengths, nil
	}
	all, err := s.cfg.Lengths(ctx, partition, ids)
	for i := range all {
		lengths[i] = max(lengths[i], all[i])
	}
	return lengths, err
}
