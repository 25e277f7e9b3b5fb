package registry

import "context"

// Registry is what servers share of their cluster. Its methods may be called concurrently; the package
// comment says what they guarantee (R1 to R5).
type Registry interface {
	Descriptions
	Presences
	Marks
}

// Descriptions keep the description of the cluster.
type Descriptions interface {
	// Bootstrap makes value the cluster's description if there is none yet, and gives the one that is there
	// then; created reports whether this call has made it. If it fails with ErrUnavailable, run it again.
	Bootstrap(ctx context.Context, value []byte) (current Document, created bool, err error)
	// Load gives the cluster's description: ErrNotFound if it has none.
	Load(ctx context.Context) (Document, error)
	// Swap makes value the cluster's description if the present one has that version, and gives the new
	// version. It fails with ErrConflict if there is a newer one, or none. After ErrUnavailable Load tells
	// whether it happened.
	Swap(ctx context.Context, version uint64, value []byte) (uint64, error)
	// Watch calls show with the cluster's present description and then with each newer one, until ctx ends
	// (R3). The calls come one after the other; what changes during a call is shown after it.
	Watch(ctx context.Context, show func(Document))
}

// Presences tell which servers are live.
type Presences interface {
	// Claim announces a server once, for a lease. It fails with ErrTaken if another instance has the name: to
	// be asked before a server begins. Announce then goes on with it.
	Claim(ctx context.Context, p Presence) error
	// Announce keeps a server among the live ones until ctx ends, then takes it out, and gives nil. The only
	// errors are those of a Presence that is not valid, and ErrTaken: another instance has the name, or
	// another Announce with the same instance took it.
	Announce(ctx context.Context, p Presence) error
	// Alive gives the servers that are live, by name.
	Alive(ctx context.Context) ([]Presence, error)
}

// Marks are facts that stay.
type Marks interface {
	// Mark notes for good that the server or process of that name has been started once. Noting it again
	// changes nothing.
	Mark(ctx context.Context, name string) error
	// Marked reports whether it has been noted.
	Marked(ctx context.Context, name string) (bool, error)
	// Note keeps a text of at most MaxNote bytes under a name, in the place of the last one.
	Note(ctx context.Context, name string, text []byte) error
	// Noted gives the text; nil: there is none.
	Noted(ctx context.Context, name string) ([]byte, error)
}
