package client

import (
	"encoding/json"
	"fmt"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/route"
)

// State is the information with which another client continues in the place of this one: its sessions with
// their contents, and its proofs. Suspend returns it. Snapshot returns it for the case that the process dies
// later.
type State struct {
	Format  int    `json:"format"`  // stateFormat
	Cluster string `json:"cluster"` // the cluster of the sessions
	Seen    string `json:"seen"`    // the result of Token
	// Running means that the client may have done more since the State was made. The next client does not
	// use numbers that may have been used.
	Running    bool                   `json:"running,omitempty"`
	Partitions []route.PartitionState `json:"partitions,omitempty"` // those with content, by id
	Tickets    string                 `json:"tickets,omitempty"`    // for inodes, see route.State; older versions have none
	Streams    []StreamState          `json:"streams,omitempty"`    // an older client does not continue them
	Losses     *LossState             `json:"losses,omitempty"`     // nor these
}

// stateFormat increases when an older client would misread a State.
const stateFormat = 3

// DecodeState decodes the JSON of a State, and validates it as far as that is possible without its cluster.
func DecodeState(b []byte) (*State, error) {
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("client state: %w", err)
	}
	if s.Format != stateFormat {
		return nil, fmt.Errorf("client state: format %d, this version knows %d: unmount, and mount with the new version", s.Format, stateFormat)
	}
	if _, err := ask.ParseToken(s.Seen); err != nil {
		return nil, fmt.Errorf("client state: what was seen: %w", err)
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		if i > 0 && p.ID <= s.Partitions[i-1].ID {
			return nil, fmt.Errorf("client state: partition %d stands behind %d", p.ID, s.Partitions[i-1].ID)
		}
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("client state: partition %d: %w", p.ID, err)
		}
	}
	return &s, nil
}

// Suspend stops the client without ending its sessions, and returns the State for another client. The client
// sends nothing afterwards; operations fail with EIO, until Resume. No operation should be running: the
// outcome of an abandoned update is not known.
func (c *Client) Suspend() *State {
	c.router.Suspend()
	c.router.delegations.suspend()
	return c.snapshot(false)
}

// Suspended reports whether the client is suspended.
func (c *Client) Suspended() bool { return c.router.Suspended() }

// Resume undoes Suspend. Another client may have continued for a while with the State, but must have stopped.
func (c *Client) Resume() {
	c.router.Resume()
	c.router.Go(c.followMoved)
	c.leases.watchOn()
}

// Snapshot returns the State with which another client continues if this process dies.
func (c *Client) Snapshot() *State { return c.snapshot(true) }

func (c *Client) snapshot(running bool) *State {
	s := &State{
		Format: stateFormat, Cluster: string(c.cfg.Cluster.Identity()), Running: running, Tickets: c.router.Tickets(running),
	}
	for id := range uint16(c.router.Partitions()) {
		if of := c.router.State(id); of.Session != nil || len(of.Held) > 0 {
			s.Partitions = append(s.Partitions, of)
		}
	}
	s.Streams, s.Losses = c.leases.streams(), c.losses.state(c.router.Losses())
	s.Seen = c.Proofs().Token() // last: it covers the rest
	return s
}

// resumed returns the router's part of the state to resume, nil if there is none.
func (cfg *Config) resumed() (*route.State, error) {
	s := cfg.Resume
	if s == nil {
		return nil, nil
	}
	if s.Cluster != string(cfg.Cluster.Identity()) {
		return nil, fmt.Errorf("client: the state to resume is of a cluster made at %q, this one was made at %q: mount the same cluster",
			s.Cluster, cfg.Cluster.Identity())
	}
	return &route.State{
		Seen: s.Seen, Running: s.Running, Partitions: cfg.Journal.sessions(s.Partitions), Tickets: s.Tickets,
	}, nil
}
