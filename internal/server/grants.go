package server

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"sync"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
)

// grants gives bound clients the right to read blocks, and verifies the right at the storage server. The
// right of a client to a block is the id of the block, which has the size of an AES block, encrypted with a
// key of the client. The keys of clients are derived from the vector keys of the servers. So all servers of
// the cluster derive the same keys, nothing is stored, and a client cannot use the rights of another client.
type grants struct {
	sealer *sealer

	mu      sync.RWMutex
	from    *byte                     // GUARDED_BY mu; the newest key of the sealer from which clients were derived
	clients map[string][]cipher.Block // GUARDED_BY mu; by name, a cipher for each valid key, the newest first
}

// maxGrantees is the maximum number of clients with remembered ciphers. To derive the ciphers of a client
// takes about 3 us.
const maxGrantees = 4096

// Grant implements replica.Rights.
func (g *grants) Grant(client string, id posix.BlockID) (right posix.BlockRight) {
	if keys := g.of(client); len(keys) > 0 {
		keys[0].Encrypt(right[:], id[:])
	}
	return right
}

// holds reports whether a client got a right to a block. Without keys it reports true for every client.
func (g *grants) holds(client string, id posix.BlockID, right posix.BlockRight) bool {
	keys := g.of(client)
	for _, key := range keys {
		var want posix.BlockRight
		key.Encrypt(want[:], id[:])
		if subtle.ConstantTimeCompare(want[:], right[:]) == 1 {
			return true
		}
	}
	return len(keys) == 0
}

// of returns the ciphers of a client.
func (g *grants) of(client string) []cipher.Block {
	keys := g.sealer.current()
	if len(keys) == 0 {
		return nil
	}
	newest := &keys[0][0]
	g.mu.RLock()
	ciphers, ok := g.clients[client]
	ok = ok && g.from == newest
	g.mu.RUnlock()
	if ok {
		return ciphers
	}
	ciphers = nil
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("right to read blocks\x00"))
		mac.Write([]byte(client))
		c, err := aes.NewCipher(mac.Sum(nil)[16:]) // tags of vectors are first halves of the same function
		invariant.Check(err == nil, "a key of 16 bytes: %v", err)
		ciphers = append(ciphers, c)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.from != newest || len(g.clients) >= maxGrantees {
		g.from, g.clients = newest, map[string][]cipher.Block{}
	}
	g.clients[client] = ciphers
	return ciphers
}

// mayGet is region.Config.MayGet: it verifies the right of a bound client to a block.
func (s *Server) mayGet(ctx context.Context, id block.ID, right block.Right) bool {
	if s.cfg.RightsOptional && right == (block.Right{}) {
		return true
	}
	asker := s.cfg.Asker(ctx)
	client := asker.client()
	return client.Bounds() == nil || s.grants.holds(client.Owner(), id, right)
}
