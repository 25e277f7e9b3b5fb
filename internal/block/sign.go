package block

import "context"

// Signing asks a server of the cluster for one request to the object storage, which the server signs.
type Signing struct {
	Do     Signed
	ID     ID
	Right  Right  // the right to get the block
	Length uint32 // of the object to put, in bytes
	Sum    uint32 // CRC32C of the object to put or to compare
}

// Signed is the kind of a Signing, numbered for ever: it is on the wire.
type Signed uint8

// The kinds.
const (
	SignGet     Signed = 1 + iota // -> URL
	SignPut                       // -> URL: the object storage stores an object of this length and sum if there is none
	SignCompare                   // -> nothing; ErrConflict: the stored object has another sum
	SignedEnd
)

// Signer signs requests to the object storage.
type Signer interface {
	// Sign returns the URL of a request that needs no credentials for a short time.
	Sign(ctx context.Context, s Signing) (url string, err error)
}
