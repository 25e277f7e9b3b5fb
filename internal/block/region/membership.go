package region

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Members returns the newest members that this server knows.
func (n *Node) Members() Members {
	m := n.view.Load().members
	m.Servers = slices.Clone(m.Servers)
	return m
}

// SetMembers adopts newer members and ignores others. When it returns nil they have been saved, and this
// server drops no copy by older ones any more (M2). This server must be a member already (M3): Admin verifies
// that.
func (n *Node) SetMembers(ctx context.Context, m Members) error {
	v, err := newView(m, n.config.Copies)
	if err != nil {
		return err
	}
	if err := n.hold(ctx); err != nil {
		return err
	}
	defer n.release()
	if !n.view.Load().stamp.before(v.stamp) {
		return nil
	}
	if n.config.Save != nil {
		if err := n.config.Save(m); err != nil {
			return fmt.Errorf("save members of version %d: %w", m.Version, err)
		}
	}
	n.view.Store(v)
	n.peers.forget(v.servers)
	n.config.Log.Info("the storage servers of the region have changed", "version", m.Version, "servers", len(m.Servers))
	n.wakeUp()
	return nil
}

// hold prevents changes of the members until release.
func (n *Node) hold(ctx context.Context) error {
	select {
	case n.changing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *Node) release() { <-n.changing }

// down returns the servers that have not answered for DownAfter, ascending. The caller must not change the
// slice.
func (n *Node) down() []multicast.ProcessID {
	if down := n.downServers.Load(); down != nil {
		return *down
	}
	return nil
}

// others returns the servers except this one, beginning with the one after it, so that each server begins
// with another one.
func (n *Node) others(v *view) []multicast.ProcessID {
	at, member := slices.BinarySearch(v.servers, n.config.Self)
	after := at
	if member {
		after++
	}
	return slices.Concat(v.servers[after:], v.servers[:at])
}

// watch pings the servers that have been silent, and records the servers that are down.
func (n *Node) watch(ctx context.Context) {
	every := time.NewTicker(n.config.Healing.PingInterval)
	defer every.Stop()
	for ctx.Err() == nil {
		n.pingIdle(ctx)
		if ctx.Err() == nil { // the pings were not cut short
			n.noteDown()
		}
		select {
		case <-every.C:
		case <-ctx.Done():
		}
	}
}

func (n *Node) pingIdle(ctx context.Context) {
	var pings sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, n.config.Healing.DownAfter/2) // one hung server must not make the others seem silent
	defer cancel()
	v := n.view.Load()
	idle := n.peers.idle(n.others(v), n.config.Healing.PingInterval)
	for _, server := range idle {
		pings.Go(func() { _ = n.exchange(ctx, server) }) // only the time of the last answer counts
	}
	pings.Wait()
}

// noteDown records the servers that are down. After a change it starts a repair round: this server may have
// to take blocks over or to hand blocks back.
func (n *Node) noteDown() {
	down := n.peers.idle(n.others(n.view.Load()), n.config.Healing.DownAfter)
	slices.Sort(down)
	before := n.down()
	if slices.Equal(down, before) {
		return
	}
	n.downServers.Store(&down)
	n.config.Log.Warn("storage servers that are down have changed: others take over their blocks meanwhile", "down", down, "before", before)
	n.wakeUp()
}

// exchange compares the members with another server: the server with the older ones adopts the newer ones.
func (n *Node) exchange(ctx context.Context, server multicast.ProcessID) error {
	v := n.view.Load()
	reply, err := n.peers.call(ctx, server, encodePing(v.stamp))
	if err != nil {
		return err
	}
	theirs, err := decodePing(reply)
	if err != nil {
		return err
	}
	switch {
	case theirs.before(v.stamp):
		_, err = n.peers.call(ctx, server, encodeSetMembers(&v.members))
	case v.stamp.before(theirs):
		if reply, err = n.peers.call(ctx, server, []byte{byte(opMembers)}); err != nil {
			return err
		}
		var m Members
		if m, err = decodeMembers(reply); err == nil {
			err = n.SetMembers(ctx, m)
		}
	}
	if err != nil {
		n.config.Log.Warn("cannot exchange the list of storage servers with another server", "server", server, "error", err)
	}
	return err
}

// wakeUp makes the next repair round begin soon.
func (n *Node) wakeUp() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}
