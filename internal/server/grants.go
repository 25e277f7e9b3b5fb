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

// ciphers derives one cipher for each client from each vector key of the servers. All servers of the cluster
// derive the same ciphers, so nothing is stored. A proof for one client is of no use to another one.
type ciphers struct {
	sealer  *sealer
	purpose string // distinguishes keys of different uses

	mu      sync.RWMutex
	from    *byte                 // the newest vector key when clients were derived
	clients map[string]clientKeys // GUARDED_BY mu; by name
}

// clientKeys are the ciphers of one client, the newest first.
type clientKeys []cipher.Block

// maxGrantees is the number of clients whose ciphers are remembered. The derivation for a client takes about
// 3 µs.
const maxGrantees = 4096

// of returns the ciphers of a client, the newest first; none if the servers have no keys.
func (d *ciphers) of(client string) clientKeys {
	keys := d.sealer.current()
	if len(keys) == 0 {
		return nil
	}
	newest := &keys[0][0]
	d.mu.RLock()
	known, ok := d.clients[client]
	ok = ok && d.from == newest
	d.mu.RUnlock()
	if ok {
		return known
	}
	var made clientKeys
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(d.purpose))
		mac.Write([]byte(client))
		c, err := aes.NewCipher(mac.Sum(nil)[16:]) // tags of vectors are first halves of the same function
		invariant.Check(err == nil, "a key of 16 bytes: %v", err)
		made = append(made, c)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.from != newest || len(d.clients) >= maxGrantees {
		d.from, d.clients = newest, map[string]clientKeys{}
	}
	d.clients[client] = made
	return made
}

// grants issues and verifies rights to read blocks, for bound clients. The right of a client to a block is
// the id of the block, which has the size of an AES block, encrypted with the cipher of the client.
type grants struct{ ciphers }

func newGrants(s *sealer) *grants {
	return &grants{ciphers{sealer: s, purpose: "right to read blocks\x00"}}
}

// Grant implements replica.Rights.
func (g *grants) Grant(client string, id posix.BlockID) (right posix.BlockRight) {
	if keys := g.of(client); len(keys) > 0 {
		keys[0].Encrypt(right[:], id[:])
	}
	return right
}

// holds reports whether a client has the right to a block. If the servers have no keys, every client has it.
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

// mayGet verifies the right of a bound client to a block (region.Config.MayGet).
func (s *Server) mayGet(ctx context.Context, id block.ID, right block.Right) bool {
	if s.cfg.RightsOptional && right == (block.Right{}) {
		return true
	}
	asker := s.cfg.Asker(ctx)
	client := asker.client()
	return client.Bounds() == nil || s.grants.holds(client.Owner(), id, right)
}
