package registry

import "context"

// Registry is the shared state of the servers of a cluster. Its methods may be called concurrently; the
// package comment has their guarantees (R1 to R5).
type Registry interface {
	Descriptions
	Presences
	Marks
}

// Descriptions keep the description of the cluster.
type Descriptions interface {
	// Bootstrap makes value the cluster's description if there is none yet, and returns the resulting
	// description; created reports whether this call has made it. If it fails with ErrUnavailable, call it
	// again.
	Bootstrap(ctx context.Context, value []byte) (current Document, created bool, err error)
	// Load returns the cluster's description: ErrNotFound if it has none.
	Load(ctx context.Context) (Document, error)
	// Swap makes value the cluster's description if the present one has that version, and returns the new
	// version. It fails with ErrConflict if there is a newer description, or none. After ErrUnavailable, Load
	// shows whether the swap happened.
	Swap(ctx context.Context, version uint64, value []byte) (uint64, error)
	// Watch calls show with the cluster's present description and then with each newer one, until ctx ends
	// (R3). The calls are sequential; changes during a call are shown after it.
	Watch(ctx context.Context, show func(Document))
}

// Presences maintain the set of live servers.
type Presences interface {
	// Claim announces a server once, for a lease. It fails with ErrTaken if another instance has the name.
	// Call it before a server begins; Announce then continues with the name.
	Claim(ctx context.Context, p Presence) error
	// Announce keeps a server among the live ones until ctx ends, then removes it, and returns nil. The only
	// errors are those of an invalid Presence, and ErrTaken: another instance has the name, or another
	// Announce with the same instance took it.
	Announce(ctx context.Context, p Presence) error
	// Alive returns the live servers, by name.
	Alive(ctx context.Context) ([]Presence, error)
}

// Marks are facts that stay.
type Marks interface {
	// Mark records permanently that the server or process of that name has been started once. Repeated calls
	// change nothing.
	Mark(ctx context.Context, name string) error
	// Marked reports whether Mark was called for the name.
	Marked(ctx context.Context, name string) (bool, error)
	// Note stores a text of at most MaxNote bytes under a name, and replaces the last one.
	Note(ctx context.Context, name string, text []byte) error
	// Noted returns the text; nil: there is none.
	Noted(ctx context.Context, name string) ([]byte, error)
}
