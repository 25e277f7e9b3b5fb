package objects_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
)

// guard is a signer that refuses the requests that a function refuses.
type guard struct {
	block.Signer
	refuses func(q block.Signing) error
}

func (g guard) Sign(ctx context.Context, q block.Signing) (string, error) {
	if err := g.refuses(q); err != nil {
		return "", err
	}
	return g.Signer.Sign(ctx, q)
}

// A store without credentials gets and puts by requests that another store signs.
func TestSignedRequests(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	cfg := config(server, "signed")
	trusted := open(t, cfg)
	var asked []block.Signing
	var refused error
	signed, err := objects.OpenSigned(cfg, guard{trusted, func(q block.Signing) error {
		asked = append(asked, q)
		return refused
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, signed.Close()) })
	id, data := blocktest.Block(1, 70000)
	require.NoError(t, signed.Put(t.Context(), block.New(id, data)))
	got, err := trusted.Get(t.Context(), id, nil)
	require.NoError(t, err)
	require.Equal(t, data, got)
	right := block.Right{7}
	got, err = signed.Get(block.WithRight(t.Context(), right), id, nil)
	require.NoError(t, err)
	require.Equal(t, data, got)
	require.Equal(t, block.Signing{Do: block.SignGet, ID: id, Right: right}, asked[len(asked)-1])

	require.NoError(t, signed.Put(t.Context(), block.New(id, data)), "the same once more")
	require.Equal(t, block.SignCompare, asked[len(asked)-1].Do, "without the right to get it")
	require.ErrorIs(t, signed.Put(t.Context(), block.New(id, data[1:])), block.ErrConflict)
	other, _ := blocktest.Block(2, 10)
	_, err = signed.Get(t.Context(), other, nil)
	require.ErrorIs(t, err, block.ErrNotFound)
	require.ErrorIs(t, signed.Delete(t.Context(), []block.ID{id}), block.ErrForbidden)
	for _, err := range signed.Range(t.Context(), block.ID{}, id) {
		require.ErrorIs(t, err, block.ErrForbidden)
	}
	refused = block.ErrForbidden
	_, err = signed.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrForbidden)
	require.ErrorIs(t, signed.Put(t.Context(), block.New(other, data)), block.ErrForbidden)
}

// A signed put stores the object that was asked for, once, and no other.
func TestSignedPutsAreNarrow(t *testing.T) {
	store := open(t, config(objectstest.Start(t, t.TempDir()), "narrow"))
	id, data := blocktest.Block(1, 5000)
	content := append([]byte("GBO1"), data...) // the server cares for length and checksum only
	sum := crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli))
	url, err := store.Sign(t.Context(), block.Signing{Do: block.SignPut, ID: id, Length: uint32(len(content)), Sum: sum})
	require.NoError(t, err)
	put := func(method string, content []byte, sum uint32, conditional bool) int {
		r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(content))
		require.NoError(t, err)
		r.Header.Set("X-Amz-Checksum-Crc32c", base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum)))
		r.Header.Set("Content-Length", strconv.Itoa(len(content)))
		if conditional {
			r.Header.Set("If-None-Match", "*")
		}
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	other := bytes.Clone(content)
	other[9]++
	longer := append(bytes.Clone(content), 1)
	require.GreaterOrEqual(t, put(http.MethodPut, other, sum, true), 400, "other content")
	require.GreaterOrEqual(t, put(http.MethodPut, other, crc32.Checksum(other, crc32.MakeTable(crc32.Castagnoli)), true), 400, "with its own checksum")
	require.GreaterOrEqual(t, put(http.MethodPut, longer, crc32.Checksum(longer, crc32.MakeTable(crc32.Castagnoli)), true), 400, "longer")
	require.GreaterOrEqual(t, put(http.MethodPut, content, sum, false), 400, "over an existing one")
	require.GreaterOrEqual(t, put(http.MethodDelete, nil, 0, true), 400)
	require.Equal(t, http.StatusOK, put(http.MethodPut, content, sum, true))
	require.GreaterOrEqual(t, put(http.MethodPut, content, sum, true), 400, "twice")

	for _, length := range []uint32{0, 8, 9 + block.MaxSize} {
		_, err = store.Sign(t.Context(), block.Signing{Do: block.SignPut, ID: id, Length: length})
		require.ErrorIs(t, err, block.ErrForbidden)
	}
}
