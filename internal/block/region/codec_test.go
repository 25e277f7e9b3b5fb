package region

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
)

var someID = posix.MakeBlockID(1, 2, 3)

// replyBlock returns the reply with a block.
func replyBlock(id block.ID, data []byte) []byte { return replyIn(nil, id, data) }

// put returns the request that puts someID.
func put(data []byte) []byte {
	b := block.New(someID, data)
	return b.Frame()
}

func TestRequestRoundTrip(t *testing.T) {
	b := block.New(someID, []byte("content"))
	want := block.Block{ID: someID, Sum: block.Sum(someID, b.Data), Data: []byte("content")}
	for o, encoded := range map[op][]byte{opPut: b.Frame(), opStore: encodeStore(&b)} {
		q, err := decodeRequest(encoded)
		require.NoError(t, err)
		require.Equal(t, request{op: o, block: want}, q)
		require.Equal(t, "00010000000000020000000000000003"+"6ba237fb"+"636f6e74656e74", fmt.Sprintf("%x", encoded[1:]), "the bytes are for ever")
	}
	require.Equal(t, b.Frame(), want.Frame(), "made anew")
	second := block.New(block.LastID, []byte("more"))
	for _, o := range []op{opPutAll, opStoreAll} {
		q, err := decodeRequest(encodeBlocks(o, []*block.Block{&b, &second}))
		require.NoError(t, err)
		require.Equal(t, request{op: o, blocks: []block.Block{want, {ID: second.ID, Sum: second.Sum, Data: second.Data}}}, q)
	}
	q, err := decodeRequest(encodeGet(opFetch, someID))
	require.NoError(t, err)
	require.Equal(t, request{op: opFetch, id: someID}, q)
	q, err = decodeRequest(encodeDelete(opDrop, []block.ID{someID, block.LastID}))
	require.NoError(t, err)
	require.Equal(t, request{op: opDrop, ids: []block.ID{someID, block.LastID}}, q)
	q, err = decodeRequest(encodeSizes([]block.ID{someID, block.LastID}))
	require.NoError(t, err)
	require.Equal(t, request{op: opSizes, ids: []block.ID{someID, block.LastID}}, q)
	sizes, err := decodeSizes(2, replySizes([]uint32{7, block.MaxSize}))
	require.NoError(t, err)
	require.Equal(t, []uint32{7, block.MaxSize}, sizes)
	_, err = decodeSizes(3, replySizes(sizes))
	require.Error(t, err)
	_, err = decodeSizes(1, replySizes([]uint32{block.MaxSize + 1}))
	require.Error(t, err)
	q, err = decodeRequest(encodeList(someID, block.LastID))
	require.NoError(t, err)
	require.Equal(t, request{op: opList, from: someID, to: block.LastID}, q)

	for name, b := range map[string][]byte{
		"empty":           {},
		"operation":       {byte(opEnd)},
		"no data":         put(nil),
		"too large":       put(make([]byte, block.MaxSize+1)),
		"cut id":          encodeGet(opGet, someID)[:9],
		"no blocks":       {byte(opPutAll)},
		"an empty block":  encodeBlocks(opPutAll, []*block.Block{&b, {ID: someID}}),
		"a cut block":     encodeBlocks(opPutAll, []*block.Block{&b})[:30],
		"too many blocks": encodeBlocks(opStoreAll, slices.Repeat([]*block.Block{&b}, maxBlocks+1)),
		"too many bytes":  encodeBlocks(opStoreAll, []*block.Block{&b, {ID: someID, Data: make([]byte, block.MaxSize)}}),
		"left over":       append(encodeGet(opGet, someID), 0),
		"forged count":    {byte(opDelete), 200, 1, 1, 2, 3},
		"too many sizes":  encodeSizes(make([]block.ID, maxSizes+1)),
		"too many ids":    encodeDelete(opDelete, make([]block.ID, maxIDs+1)),
	} {
		_, err := decodeRequest(b)
		require.Error(t, err, name)
	}
}

func TestReplyErrors(t *testing.T) {
	for _, kind := range kinds[1:] {
		err := replyErr(replyError(fmt.Errorf("server 3: %w", kind)))
		require.ErrorIs(t, err, kind)
		require.EqualError(t, err, "server 3: "+kind.Error())
	}
	require.ErrorIs(t, replyErr(replyError(&block.CorruptError{ID: someID})), block.ErrCorrupt)
	require.ErrorIs(t, replyErr(replyError(errors.New("disk on fire"))), errFailed)
	require.Error(t, replyErr(nil))
	require.Error(t, replyErr([]byte{byte(codeEnd)}))
	require.Len(t, replyError(errors.New(string(make([]byte, 1<<20)))), 1+maxText)
}

func TestBlockDamagedOnTheWire(t *testing.T) {
	reply := replyBlock(someID, []byte("content"))
	b, err := decodeBlock(someID, reply)
	require.NoError(t, err)
	require.Equal(t, block.New(someID, []byte("content")).Data, b.Data)
	_, err = decodeBlock(block.LastID, reply)
	require.ErrorIs(t, err, block.ErrCorrupt, "the bytes of another block")
	reply[len(reply)-1] ^= 1
	_, err = decodeBlock(someID, reply)
	require.ErrorIs(t, err, block.ErrCorrupt)
}

func FuzzRequest(f *testing.F) {
	f.Add(put([]byte("content")))
	f.Add(encodeBlocks(opPutAll, []*block.Block{{ID: someID, Data: []byte("content")}}))
	f.Add(encodeGet(opGet, someID))
	f.Add(encodeDelete(opDelete, []block.ID{someID, block.LastID}))
	f.Add(encodeList(someID, block.LastID))
	f.Add(encodeSizes([]block.ID{someID}))
	f.Add([]byte{byte(opUsage)})
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := decodeRequest(b)
		if err == nil && (len(q.block.Data) > block.MaxSize || len(q.ids) > maxIDs) {
			t.Errorf("%d bytes, %d ids", len(q.block.Data), len(q.ids))
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(replyBlock(someID, []byte("content")))
	f.Add(replyIDs([]block.ID{someID}, true))
	f.Add(replyUsage(1<<40, 3))
	f.Add(replyError(block.ErrNotFound))
	f.Fuzz(func(t *testing.T, b []byte) {
		if replyErr(b) != nil {
			return
		}
		if found, err := decodeBlock(someID, b); err == nil {
			require.Equal(t, b, replyBlock(someID, found.Data))
		}
		if ids, more, err := decodeIDs(b); err == nil {
			again, moreAgain, err := decodeIDs(replyIDs(ids, more))
			require.NoError(t, err)
			require.Equal(t, ids, again)
			require.Equal(t, more, moreAgain)
		}
		_, _, _ = decodeUsage(b)
	})
}
